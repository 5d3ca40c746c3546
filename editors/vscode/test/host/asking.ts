/** The ways to ask: instructions, recipes, problems, once more. */

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as vscode from 'vscode';
import {
  CODE,
  DEF,
  editor,
  engine,
  folders,
  forget,
  listed,
  choose,
  open,
  press,
  renamed,
  shown,
  stet,
  test,
  text,
  until,
} from './harness';

test('a model that changes nothing is told, and asked again if the user wants', async () => {
  const before = await engine();
  press('Try again');
  await stet('rewriteSelection', { instruction: 's/nowhere/found/' });
  await until(() => shown.length === 2, 'two messages');
  assert.deepEqual(shown[0], { text: 'Stet: the model changed nothing', buttons: ['Try again'] });
  assert.match(shown[1]?.text ?? '', /again; say it in other words, or choose a larger model/);
  assert.deepEqual(shown[1]?.buttons, ['Choose a model…']);
  assert.equal((await engine())['n_finished'], (before['n_finished'] ?? 0) + 2);
  assert.equal(text(), CODE);
});

test('the model reads the code while the instruction is typed', async () => {
  const before = await engine();
  const asked = stet('rewriteSelection');
  await until(async () => (await engine())['n_prefills'] !== before['n_prefills'], 'the code to be read');
  await vscode.commands.executeCommand('workbench.action.closeQuickOpen');
  await asked;
  assert.equal((await engine())['n_finished'], before['n_finished'], 'nothing is written');
});

test('the last instruction is repeated elsewhere', async () => {
  await stet('rewriteSelection', { instruction: 's/x/radius/' });
  await stet('accept');
  editor.selection = new vscode.Selection(11, 0, 13, 0);
  await stet('repeat');
  await stet('accept');
  assert.equal(text(), CODE.replaceAll(/\bx\b/g, 'radius'));
});

test('recipes are the built-in ones, the user’s and the project’s, all in one list', async () => {
  const [, second] = folders();
  assert(second);
  const recipe = (title: string): string => `title = "${title}"\ninstruction = "s/y/radius2/"\n`;
  writeFileSync(vscode.Uri.joinPath(second, '.stet.toml').fsPath, `[recipes.log]\n${recipe('Use our logger')}`);
  const own = join(process.env['XDG_CONFIG_HOME'] ?? assert.fail(), 'stet', 'recipes.toml');
  mkdirSync(dirname(own), { recursive: true });
  writeFileSync(own, `[recipes.mine]\n${recipe('My way')}`);
  await open(CODE, DEF, second);
  choose('My way');
  await stet('rewriteByRecipe');
  const labels = listed.map(({ label }) => label);
  assert(labels.includes('Add type hints') && labels.includes('Use our logger (project)'), labels.join(', '));
  assert(!labels.some((label) => label.startsWith('Fix')), 'there is nothing to fix');
  await stet('accept');
  assert.equal(text(), renamed(CODE));
});

test('a recipe chosen in the code action menu is previewed too', async () => {
  const [action] = await actionsFor(DEF, 'refactor.rewrite.stet');
  assert(action?.command);
  await vscode.commands.executeCommand(action.command.command, ...((action.command.arguments ?? []) as unknown[]));
  // The stand-in engine knows no recipe and changes nothing: it is asked all the same, and that is told by this side.
  assert.equal(shown[0]?.text, 'Stet: the model changed nothing');
});

test('what another extension reports has a quick fix, which may change the code around it', async () => {
  const mark = new vscode.Range(5, 8, 5, 9);
  await reported([new vscode.Diagnostic(mark, 's/y/radius2/')], async () => {
    const [action] = await actionsFor(mark, 'quickfix');
    assert.equal(action?.title, 'Stet: Fix: s/y/radius2/');
    await vscode.commands.executeCommand(
      action?.command?.command ?? '',
      ...((action?.command?.arguments ?? []) as unknown[]),
    );
    await stet('accept');
    assert.equal(text(), renamed(CODE));
  });
});

test('the problems of the selected lines are fixed, those of others left', async () => {
  const there = new vscode.Diagnostic(new vscode.Range(12, 4, 12, 10), 's/z/wrong/');
  await reported([new vscode.Diagnostic(new vscode.Range(8, 4, 8, 10), 's/y/radius2/'), there], async () => {
    await stet('fixProblems');
    await stet('accept');
    assert.equal(text(), renamed(CODE));
    forget();
    editor.selection = new vscode.Selection(0, 0, 0, 0);
    await stet('fixProblems');
    assert.equal(shown[0]?.text, 'Stet: no problem is reported in these lines');
  });
});

async function actionsFor(range: vscode.Range, kind: string): Promise<vscode.CodeAction[]> {
  const provide = 'vscode.executeCodeActionProvider';
  const found = await until(async () => {
    const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
      provide,
      editor.document.uri,
      range,
      kind,
    );
    const ours = actions.filter(({ title }) => title.startsWith('Stet: '));
    return ours.length > 0 ? ours : undefined;
  }, `actions of kind ${kind}`);
  return found;
}

/** While another extension reports these. */
async function reported(diagnostics: vscode.Diagnostic[], run: () => Promise<void>): Promise<void> {
  const linter = vscode.languages.createDiagnosticCollection('linter');
  linter.set(editor.document.uri, diagnostics);
  try {
    await run();
  } finally {
    linter.dispose();
  }
}
