const _ = require('lodash');

const tree = (depth) => (depth === 0 ? { leaf: [1, 2, 3] } : { left: tree(depth - 1), right: tree(depth - 1) });

describe('objects', () => {
  test.each([1, 2, 3, 4, 5, 6])('%d deep', (depth) => {
    const one = tree(depth);
    const other = _.cloneDeep(one);
    expect(other).toEqual(one);
    expect(_.isEqual(one, other)).toBe(true);
    _.set(other, 'added.at.the.end', depth);
    expect(other).not.toEqual(one);
  });

  test('functions are called', () => {
    const called = jest.fn((n) => n + 1);
    _.times(200, called);
    expect(called).toHaveBeenCalledTimes(200);
    expect(called).toHaveBeenLastCalledWith(199);
  });
});
