/** Installing the server: shows what would be run, asks, and runs it where the user can watch. */

import * as vscode from 'vscode';
import { programIn, scriptsOf } from './find';
import { agreed, outcomeOf, runInTerminal } from './run';
import type { Server } from './server';
import { setting } from './settings';

const IS_NEW_ENOUGH = 'import sys; sys.exit(sys.version_info < (3, 11))';

/** Install the server into this extension's own virtual environment. */
export async function install(server: Server): Promise<void> {
  const python = process.platform === 'win32' ? ['py', '-3'] : ['python3'];
  const [command = '', ...args] = python;
  const { isOk } = await outcomeOf({ command, args, source: '' }, ['-c', IS_NEW_ENOUGH]);
  if (!isOk) {
    void vscode.window.showErrorMessage(
      `Stet: the server needs Python 3.11 or newer, and \`${python.join(' ')}\` is older or not there. ` +
        'Install one from python.org (or name an interpreter that has stet-lsp in the setting stet.interpreter).',
    );
    return;
  }
  const inside = programIn(scriptsOf(server.environment), 'python');
  const commands = [
    [...python, '-m', 'venv', server.environment],
    [inside, '-m', 'pip', 'install', '--upgrade', setting<string>('installSource')],
  ];
  const detail =
    'This makes a virtual environment and installs the server with pip, which fetches PyTorch too (1 to 4 GB). ' +
    `No model is fetched yet. What is run:\n\n${commands.map((command, index) => `${index + 1}. ${command.join(' ')}`).join('\n\n')}`;
  if (!(await agreed('Install the Stet server?', detail, 'Install'))) {
    return;
  }
  for (const command of commands) {
    if ((await runInTerminal(command, 'Install the server')) !== 0) {
      void vscode.window.showErrorMessage('Stet: the installation failed; its terminal says why.');
      return;
    }
  }
  await server.restart();
}
