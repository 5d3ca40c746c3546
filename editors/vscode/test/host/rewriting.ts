/** From the instruction to the accepted edit, and what becomes of the text meanwhile. */

import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import * as vscode from 'vscode';
import {
  api,
  CODE,
  editor,
  engine,
  insert,
  isIdle,
  job,
  NOW,
  open,
  panel,
  renamed,
  show,
  shown,
  startSlowly,
  stet,
  test,
  text,
  until,
} from './harness';

test('a rewrite is proposed, accepted, and one undo takes it back', async () => {
  await insert(0, '# typed\n');
  editor.selection = new vscode.Selection(4, 0, 10, 0);
  await stet('rewriteSelection', NOW);
  assert.equal(text(), `# typed\n${CODE}`);
  await stet('accept');
  assert.equal(text(), `# typed\n${renamed(CODE)}`);
  assert.equal(job(), undefined);
  await vscode.commands.executeCommand('undo');
  assert.equal(text(), `# typed\n${CODE}`);
  await vscode.commands.executeCommand('redo');
  assert.equal(text(), `# typed\n${renamed(CODE)}`);
});

test('without a selection the function at the cursor is rewritten', async () => {
  editor.selection = new vscode.Selection(5, 4, 5, 4);
  await stet('rewriteSelection', { instruction: 's/x/radius/' });
  await stet('accept');
  const [head, rest] = CODE.split('def rest');
  assert.equal(text(), `${head?.replaceAll(/\bx\b/g, 'radius')}def rest${rest}`);
});

test('a whole file is rewritten', async () => {
  await stet('rewriteFile', { instruction: 's/x/radius/' });
  await stet('accept');
  assert.equal(text(), CODE.replaceAll(/\bx\b/g, 'radius'));
});

test('the stream is drawn beside the text, which stays as it is', async () => {
  const { isDone } = await startSlowly();
  assert.equal(text(), CODE);
  assert(!editor.document.isDirty);
  assert(panel().includes('    radius2 = x * x'));
  await isDone;
  assert.equal(job()?.state, 'proposed');
  assert.equal(text(), CODE);
});

test('cancel leaves the text alone and the engine idle', async () => {
  const before = await engine();
  const { isDone } = await startSlowly();
  await stet('cancel');
  await isDone;
  await isIdle();
  const after = await engine();
  assert.equal(after['n_hung_up'], (before['n_hung_up'] ?? 0) + 1);
  assert.equal(after['n_finished'], before['n_finished']);
  assert.deepEqual([text(), job(), panel(), shown], [CODE, undefined, [], []]);
});

test('typing above while it streams moves the rewrite along', async () => {
  const { isDone } = await startSlowly();
  await insert(0, '# first\n');
  await insert(1, '# second\n');
  assert.deepEqual(api.preview.drawing(editor).removed[0], { first: 7, stop: 8 });
  await isDone;
  await insert(0, '# third\n');
  await stet('accept');
  assert.equal(text(), `# third\n# first\n# second\n${renamed(CODE)}`);
});

test('an edit of a line that would change drops that change, is told, and stays', async () => {
  await stet('rewriteSelection', NOW);
  assert.equal(job()?.hunks.length, 2);
  assert(await editor.edit((edit) => edit.insert(new vscode.Position(5, 13), '  # mine')));
  await until(() => job()?.hunks.length === 1, 'the hunk to be dropped');
  await until(() => shown.length === 1, 'a message');
  await stet('accept');
  const mine = CODE.replace('x * x', 'x * x  # mine');
  assert.equal(text(), mine.replace('y = y * z\n    return y', 'radius2 = radius2 * z\n    return radius2'));
});

test('a part of a line is rewritten to the character', async () => {
  editor.selection = new vscode.Selection(7, 8, 7, 13);
  await stet('rewriteSelection', NOW);
  await stet('regenerate');
  await stet('accept');
  assert.equal(text(), CODE.replace('y = y * z', 'y = radius2 * z'));
});

/** The text with every `{}` replaced by `old` before and by `z` after. */
function bytesStay(name: string, template: string): void {
  test(name, async () => {
    const [before, after] = ['old', 'z'].map((word) => template.replaceAll('{}', word)) as [string, string];
    await open(before, new vscode.Selection(2, 0, 3, after.length));
    await stet('rewriteSelection', { instruction: 's/old/z/' });
    await stet('accept');
    assert(await editor.document.save());
    assert.equal(readFileSync(editor.document.uri.fsPath, 'utf8'), after);
    await vscode.commands.executeCommand('undo');
    assert(await editor.document.save());
    assert.equal(readFileSync(editor.document.uri.fsPath, 'utf8'), before);
  });
}
bytesStay('bytes outside the change stay: CRLF', 'a = 1\r\n\r\nb = {}\r\nc = {}\r\n');
bytesStay('bytes outside the change stay: tabs', 'if a:\n\tx = 1\n\tif {}:\n\t\treturn {}\t# {}\n');
bytesStay(
  'bytes outside the change stay: beyond the basic plane',
  's = "🙂🙂"\n\nt = "👩\u200d🚀e\u0301" + {} + "🙂"\nq = {}\n',
);
bytesStay('bytes outside the change stay: no final newline', 'a\n\n{}\n{}');

test('an untitled document is rewritten too', async () => {
  const document = await vscode.workspace.openTextDocument({ language: 'python', content: CODE });
  await show(document);
  await stet('rewriteSelection', NOW);
  await stet('accept');
  assert.equal(text(), renamed(CODE));
});

/** As the system does it where memory is short. */
async function killServer(): Promise<void> {
  const client = (await api.server.client()) as unknown as { _serverProcess: ChildProcess };
  client._serverProcess.kill('SIGKILL');
}

test('a server that is killed in mid-rewrite is told with what to do about it', async () => {
  const { isDone } = await startSlowly();
  await killServer();
  await isDone;
  assert.deepEqual([text(), job(), panel()], [CODE, undefined, []]);
  assert.match(shown[0]?.text ?? '', /the server stopped in mid-rewrite; nothing was changed; the next rewrite starts/);
  assert.deepEqual([shown.length, shown[0]?.buttons], [1, ['Show the log']]);
});

test('a proposal that went with the server is not gone in silence', async () => {
  await stet('rewriteSelection', NOW);
  await killServer();
  await until(() => job() === undefined, 'the proposal to go');
  assert.match(shown[0]?.text ?? '', /what it had proposed went with it; nothing was changed: ask once more/);
  await stet('rewriteSelection', NOW);
  await stet('accept');
  assert.equal(text(), renamed(CODE));
});

test('a server that dies leaves the text as it was, and the next rewrite works', async () => {
  const { isDone } = await startSlowly();
  await stet('restart');
  await isDone;
  assert.deepEqual([text(), job(), panel()], [CODE, undefined, []]);
  await stet('rewriteSelection', NOW);
  await stet('accept');
  assert.equal(text(), renamed(CODE));
});
