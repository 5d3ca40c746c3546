/** Installing the server: shows what would be run, asks, and runs it where the user can watch. */

import * as vscode from 'vscode';
import { programIn, scriptsOf } from './find';
import { agreed, runInTerminal } from './run';
import type { Server } from './server';
import { setting } from './settings';

/** Install the server into this extension's own virtual environment. */
export async function install(server: Server): Promise<void> {
  const python = process.platform === 'win32' ? ['py', '-3'] : ['python3'];
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
