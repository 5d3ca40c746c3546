/** Cells of notebooks are documents of their own. */

import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import { CODE, job, look, NOW, panel, renamed, stet, test, text, until } from './harness';

test('a cell of a notebook is rewritten, and one undo takes it back', async () => {
  const cell = new vscode.NotebookCellData(vscode.NotebookCellKind.Code, CODE, 'python');
  const other = new vscode.NotebookCellData(vscode.NotebookCellKind.Code, CODE, 'python');
  const data = new vscode.NotebookData([cell, other]);
  const notebook = await vscode.workspace.openNotebookDocument('jupyter-notebook', data);
  await vscode.window.showNotebookDocument(notebook);
  await vscode.commands.executeCommand('notebook.cell.edit');
  const front = await until(
    () => vscode.window.visibleTextEditors.find(({ document }) => document === notebook.cellAt(0).document),
    'the editor of the cell',
  );
  await until(() => vscode.window.activeTextEditor === front, 'the cell to be in front');
  look(front);
  await stet('rewriteSelection', NOW);
  assert.equal(job()?.state, 'proposed');
  assert(panel().includes('    radius2 = x * x'));
  assert.equal(text(), CODE);
  await stet('accept');
  assert.deepEqual([text(), notebook.cellAt(1).document.getText()], [renamed(CODE), CODE]);
  await vscode.commands.executeCommand('undo');
  assert.equal(text(), CODE);
});
