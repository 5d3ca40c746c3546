/** Versions of a rewrite side by side: another try, and "now also". */

import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import { api, CODE, editor, isIdle, job, NOW, panel, press, renamed, shown, stet, test, text, until } from './harness';

/** The stand-in engine numbers the new words of other tries than the first. */
const VARIOUSLY = { instruction: 'variously s/y/radius/' };
const versions = (): string[] => {
  const shownJob = job();
  return shownJob ? api.rewrites.jobs.versions(shownJob).map(({ id }) => id) : [];
};
/** The new name of the version that is shown. */
const named = (): string | undefined => /radius\w*/.exec(panel()[0] ?? '')?.[0];

async function lensTitles(): Promise<string[]> {
  const uri = editor.document.uri;
  const lenses = await vscode.commands.executeCommand<vscode.CodeLens[]>('vscode.executeCodeLensProvider', uri);
  return lenses.map(({ command }) => command?.title ?? '');
}

test('another version stands beside the first, and either can be accepted', async () => {
  await stet('rewriteSelection', VARIOUSLY);
  assert.equal(named(), 'radius');
  await stet('regenerate');
  assert.match(named() ?? '', /^radius_\d+$/);
  await until(async () => (await lensTitles()).includes('2/2'), 'the number in a lens');
  await stet('previousVersion');
  assert.equal(named(), 'radius');
  await until(async () => (await lensTitles()).includes('1/2'), 'the other number in a lens');
  await stet('accept');
  assert.equal(text(), CODE.replaceAll(/\by\b/g, 'radius'));
  await until(() => job() === undefined, 'the other version to go');
  assert.deepEqual(shown, []);
  await vscode.commands.executeCommand('undo');
  assert.equal(text(), CODE);
});

test('a fourth version takes the place of the oldest', async () => {
  await stet('rewriteSelection', VARIOUSLY);
  const first = job()?.id ?? '';
  for (let n = 0; n < 3; n++) {
    await stet('regenerate');
  }
  await until(() => versions().length === 3, 'three versions');
  assert(!versions().includes(first));
  const names = new Set<string | undefined>();
  for (let n = 0; n < 3; n++) {
    await stet('nextVersion');
    names.add(named());
  }
  assert.equal(names.size, 3);
  assert.deepEqual(shown, []);
});

test('a version that is cancelled leaves the others as they are', async () => {
  await stet('rewriteFile', { instruction: 'variously endlessly s/y/radius/' });
  const isDone = Promise.resolve(stet('regenerate'));
  await until(() => job()?.state === 'running' && panel().length > 0, 'the preview of the other');
  await stet('cancel');
  await isDone;
  await isIdle();
  assert.deepEqual([named(), job()?.state, versions().length], ['radius', 'proposed', 1]);
  await stet('accept');
  assert.equal(text(), CODE.replaceAll(/\by\b/g, 'radius'));
});

test('"now also" goes on from the proposal, and is a version beside it', async () => {
  await stet('rewriteSelection', NOW);
  await stet('refine', { instruction: 's/z/pi/' });
  assert.equal(versions().length, 2);
  assert.equal(text(), CODE);
  await stet('accept');
  assert.equal(text(), renamed(CODE).replaceAll(/\bz\b/g, 'pi'));
});

test('what is repeated after "now also" is both', async () => {
  const [first, second] = ['s/x/one/', 's/rest/two/'];
  await stet('rewriteSelection', { instruction: first });
  await stet('refine', { instruction: second });
  await stet('accept');
  editor.selection = new vscode.Selection(11, 0, 13, 0);
  await stet('repeat');
  await stet('accept');
  assert.equal(text(), CODE.replaceAll(/\bx\b/g, 'one').replaceAll(/\brest\b/g, 'two'));
});

test('to reject is to reject all versions', async () => {
  await stet('rewriteSelection', VARIOUSLY);
  await stet('regenerate');
  await stet('reject');
  assert.deepEqual([text(), job(), panel()], [CODE, undefined, []]);
});

test('a version that says the same again is told, and leaves the first', async () => {
  await stet('rewriteSelection', NOW);
  await stet('regenerate');
  assert.deepEqual(shown, [{ text: 'Stet: the model wrote the same again', buttons: ['Try again'] }]);
  assert.equal(versions().length, 1);
  press('Try again');
  await stet('regenerate');
  await until(() => shown.length === 3, 'the try after that');
  await stet('accept');
  assert.equal(text(), renamed(CODE));
});
