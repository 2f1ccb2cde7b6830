// A lot of code in TypeScript.
export * from '../node_modules/rxjs/src/index';
