const _ = require('lodash');

describe('arrays', () => {
  for (let size = 1; size <= 40; size++) {
    test(`of ${size}`, () => {
      const all = _.range(size * 10);
      expect(_.chunk(all, size).length).toBe(10);
      expect(_.sortBy(_.shuffle(all))).toEqual(all);
      expect(_.groupBy(all, (n) => n % 3)).toMatchObject({ 0: expect.arrayContaining([0]) });
    });
  }
});
