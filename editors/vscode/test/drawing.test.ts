import assert from 'node:assert/strict';
import test from 'node:test';
import { type Change, draw, expanded, withChanges } from '../src/drawing';

const TEXT = ['def area(x):', '    y = x * x', '    return y', '', 'end'];
const LINES = { count: TEXT.length, tabSize: 4, at: (line: number) => TEXT[line] ?? '' };

function change(first: number, stop: number, newText: string): Change {
  return { first, stop, newText, parts: [] };
}

test('new lines stand right of the old ones, all in one column', () => {
  const { cells, removed } = draw([change(1, 3, '    r = x\n    return r\n')], LINES);
  assert.deepEqual(removed, [{ first: 1, stop: 3 }]);
  assert.deepEqual(cells, [
    { line: 1, gap: 3, text: '    r = x' },
    { line: 2, gap: 4, text: '    return r' },
  ]);
});

test('lines that come with no old line stand beside those that follow', () => {
  const { cells, inserted, removed } = draw([change(1, 1, 'new\n')], LINES);
  assert.deepEqual([inserted, removed], [[1], []]);
  assert.deepEqual(cells, [{ line: 1, gap: 3, text: 'new' }]);
});

test('a panel ends where the next change begins, and counts what it has no row for', () => {
  const { cells } = draw([change(0, 1, 'a\nb\nc\n'), change(2, 3, 'd\n')], LINES);
  assert.deepEqual(
    cells.map(({ line, text }) => [line, text]),
    [
      [0, 'a'],
      [1, 'b  ⋯ and 1 more'],
      [2, 'd'],
    ],
  );
});

test('what comes after the last line stands beside it', () => {
  const { cells, inserted } = draw([change(5, 5, 'a\nb\n')], LINES);
  assert.deepEqual(inserted, [4]);
  assert.deepEqual(cells, [{ line: 4, gap: 3, text: 'a  ⋯ and 1 more' }]);
});

test('lines that only go have no panel', () => {
  assert.deepEqual(draw([change(3, 4, '')], LINES).cells, []);
});

test('what differs within a line moves with its change', () => {
  const { parts } = draw([{ ...change(1, 3, 'x\n'), parts: [{ row: 1, start: 4, end: 6 }] }], LINES);
  assert.deepEqual(parts, [{ line: 2, start: 4, end: 6 }]);
});

test('tabs reach to the next tab stop', () => {
  assert.equal(expanded('\tab\tc', 4), '    ab  c');
});

test('the proposal keeps every byte of the lines that stay', () => {
  const text = 'a\r\nb\nc\r\n\tlast';
  assert.equal(withChanges(text, []), text);
  assert.equal(withChanges(text, [change(1, 2, 'B\n'), change(4, 4, '')]), 'a\r\nB\nc\r\n\tlast');
  assert.equal(withChanges(text, [change(0, 0, 'new\r\n'), change(3, 4, 'LAST')]), 'new\r\na\r\nb\nc\r\nLAST');
});
