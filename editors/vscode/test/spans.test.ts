import assert from 'node:assert/strict';
import test from 'node:test';
import { type Edit, moved, movedSince, type Span, spanOf } from '../src/spans';

/** An edit from one place to another, as [line, character]. */
function edit(start: [number, number], end: [number, number], text: string): Edit {
  const at = ([line, character]: [number, number]) => ({ line, character });
  return { range: { start: at(start), end: at(end) }, text };
}

function check(span: [number, number], by: Edit, wanted: [number, number]): void {
  const [first, stop] = span;
  assert.deepEqual(moved({ first, stop }, by), { first: wanted[0], stop: wanted[1] });
}

test('a range of whole lines ends at character 0 or at the end of the document', () => {
  const { range } = edit([2, 0], [4, 0], '');
  assert.deepEqual(spanOf(range), { first: 2, stop: 4 });
  assert.deepEqual(spanOf({ ...range, end: { line: 4, character: 7 } }), { first: 2, stop: 5 });
});

test('an edit above moves a span', () => {
  check([5, 7], edit([0, 0], [0, 0], 'a\nb\n'), [7, 9]);
  check([5, 7], edit([1, 0], [3, 0], ''), [3, 5]);
  check([5, 7], edit([4, 3], [4, 3], '\r\n'), [6, 8]);
  check([5, 7], edit([5, 0], [5, 0], 'whole line\n'), [6, 8]);
});

test('an edit below leaves it', () => {
  check([5, 7], edit([7, 0], [7, 0], 'whole line\n'), [5, 7]);
  check([5, 7], edit([9, 0], [12, 0], ''), [5, 7]);
});

test('an edit inside stretches it', () => {
  check([5, 7], edit([5, 2], [5, 2], '\n'), [5, 8]);
  check([5, 7], edit([5, 2], [6, 0], ''), [5, 6]);
  check([5, 7], edit([6, 2], [6, 3], 'x'), [5, 7]);
});

test('only edits that came later than the version count', () => {
  const history = [3, 4, 5].map((version) => ({ version, edits: [edit([0, 0], [0, 0], '\n')] }));
  const span: Span = { first: 1, stop: 2 };
  assert.deepEqual(movedSince(span, 3, history), { first: 3, stop: 4 });
  assert.deepEqual(movedSince(span, 5, history), span);
});
