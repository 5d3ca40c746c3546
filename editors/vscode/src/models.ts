/** Choosing a model by what fits into this machine's memory, and fetching it: nothing is fetched before the user has seen what, how much and from where. */

import { isAbsolute } from 'node:path';
import * as vscode from 'vscode';
import type { Program } from './find';
import { dtypeFor, type Fit, isPlanned, itemOf, parseFits, planOf } from './fit';
import { agreed, outcomeOf, runInTerminal } from './run';
import type { Server } from './server';

interface Choice extends vscode.QuickPickItem {
  /** What the setting stet.model is to be; undefined: ask for it. */
  ref?: () => Thenable<string | undefined>;
  fit?: Fit;
}

/** Choose, set stet.model, and fetch what isn't there yet. */
export async function chooseModel(server: Server): Promise<void> {
  const program = await programOf(server);
  if (!program) {
    return;
  }
  const configuration = vscode.workspace.getConfiguration('stet');
  const now = configuration.get('dtype', 'auto');
  const presets = await busy('looking at this machine’s memory', () => fitsOf(program, now));
  const choices: Choice[] = [
    ...presets.map((fit) => ({ ...itemOf(fit), fit, ref: () => Promise.resolve(fit.preset) })),
    { label: '', kind: vscode.QuickPickItemKind.Separator },
    {
      label: 'A folder or .gguf file on this machine…',
      detail: 'For machines without a network: a Hugging Face folder with safetensors, or a GGUF file',
      ref: chooseLocal,
    },
    { label: 'A Hugging Face id…', detail: 'e.g. Qwen/Qwen2.5-Coder-3B-Instruct', ref: chooseId },
  ];
  const choice = await vscode.window.showQuickPick(choices, { title: 'Stet: which model is to write?' });
  const ref = await choice?.ref?.();
  if (ref && (await isThere(program, ref))) {
    const dtype = dtypeFor(choice?.fit, now) ?? now;
    if (dtype !== now) {
      await configuration.update('dtype', dtype, vscode.ConfigurationTarget.Global);
    }
    await configuration.update('model', ref, vscode.ConfigurationTarget.Global);
    void vscode.window.showInformationMessage(
      `Stet: the model is ${ref}${dtype === 'auto' ? '' : `, with dtype ${dtype}`}.`,
    );
  }
}

async function programOf(server: Server): Promise<Program | undefined> {
  const client = await server.client();
  return client && server.program();
}

async function fitsOf(program: Program, dtype: string): Promise<Fit[]> {
  const asked = dtype === 'auto' ? [] : ['--dtype', dtype];
  const outcome = await outcomeOf(program, ['models', 'fit', '--json', ...asked]);
  const fits = outcome.isOk ? parseFits(outcome.stdout) : undefined;
  if (fits) {
    return fits;
  }
  void vscode.window.showWarningMessage('Stet: this server can’t say what fits into the memory; look at the sizes.');
  return parseFits((await outcomeOf(program, ['models', 'list', '--json'])).stdout) ?? [];
}

/** Whether the model is on this machine, in the end. Asks before it fetches. */
async function isThere(program: Program, ref: string): Promise<boolean> {
  // Nobody can say yes to a fetch, so this only tells what would be fetched.
  const words = ['models', isAbsolute(ref) ? 'path' : 'fetch', ref];
  const { isOk, stderr } = await busy(`asking where ${ref} is to be had`, () => outcomeOf(program, words));
  if (isOk) {
    return true;
  }
  if (!isPlanned(stderr)) {
    void vscode.window.showErrorMessage(`Stet: ${stderr.trim().replace(/^stet: error: /, '')}`);
    return false;
  }
  const command = [program.command, ...program.args, 'models', 'fetch', ref, '--yes'];
  const detail = `${planOf(stderr)}\n\nOnce; afterwards no network is used. What is run:\n\n${command.join(' ')}`;
  if (!(await agreed(`Fetch the model “${ref}”?`, detail, 'Fetch'))) {
    return false;
  }
  if ((await runInTerminal(command, 'Fetch a model')) === 0) {
    return true;
  }
  void vscode.window.showErrorMessage(
    'Stet: the model was not fetched; the terminal says why. Fetching goes on where it stopped.',
  );
  return false;
}

async function chooseLocal(): Promise<string | undefined> {
  const [chosen] =
    (await vscode.window.showOpenDialog({
      canSelectFiles: true,
      canSelectFolders: true,
      openLabel: 'Use this model',
      title: 'A folder with safetensors, config.json and a tokenizer; or a .gguf file',
    })) ?? [];
  return chosen?.fsPath;
}

function chooseId(): Thenable<string | undefined> {
  return vscode.window.showInputBox({
    title: 'Stet: a model of the Hugging Face hub',
    placeHolder: 'OWNER/NAME',
    validateInput: (text) => (/^[\w.-]+\/[\w.-]+$/.test(text.trim()) ? undefined : 'OWNER/NAME is wanted'),
  });
}

function busy<T>(what: string, run: () => Promise<T>): Thenable<T> {
  const options = { location: vscode.ProgressLocation.Notification, title: `Stet: ${what}` };
  return vscode.window.withProgress(options, run);
}
