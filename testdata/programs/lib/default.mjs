// A module whose default export is an arrow function.
export default (spin) => spin() + 1;
