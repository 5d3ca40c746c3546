/** The language server's life: found, started, given settings, restarted. Knows no rewrites. */

import * as vscode from 'vscode';
import { LanguageClient, RevealOutputChannelOn, State, TransportKind } from 'vscode-languageclient/node';
import { findProgram, type Program, WrongSetting } from './find';
import { serverSettings, setting } from './settings';

interface PythonApi {
  environments: { getActiveEnvironmentPath(): { path: string } };
}

const NOT_INSTALLED = 'there is no program “stet” on the PATH';
const INSTALL = 'Install…';
const SET_PATH = 'Set the path…';
const MANAGE_TRUST = 'Manage trust…';
const SHOW_LOG = 'Show the log';
/** A program that is no server may never answer: a stop doesn't wait for longer. */
const START_MS = 10_000;

/** What the library itself would say of a failure names a cause at most, and nothing to do: rewrites.ts and explain() say both. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

export class Server implements vscode.Disposable {
  readonly log = vscode.window.createOutputChannel('Stet', { log: true });
  /** Cells of notebooks are documents of their own. Virtual files are left out: see package.json. */
  readonly selector = ['file', 'untitled', 'vscode-notebook-cell'].map((scheme) => ({ scheme }));
  /** Where this extension's own virtual environment is, or would be. */
  readonly environment: string;
  /** Runs what was chosen in the code action menu, in place of the server: with a preview. */
  onCommand: ((argument: unknown) => unknown) | undefined;
  private stopped: Promise<void> = Promise.resolve();
  /** Settles when the last start has succeeded or failed. */
  private starting: Promise<void> | undefined;
  /** Why there is no server, in a few words; undefined while there is one, or none was looked for. */
  problem: string | undefined;

  private readonly created = new vscode.EventEmitter<LanguageClient>();
  /** Fires for each client before it starts: the place to listen to the server. */
  readonly onClient = this.created.event;
  private readonly changed = new vscode.EventEmitter<void>();
  /** Fires when `problem` may have changed. */
  readonly onDidChange = this.changed.event;

  private isDisposed = false;
  private isRunning = false;
  /** Of the program that was started last, and where it was found. */
  private name = '';
  private current: Promise<LanguageClient | undefined> | undefined;
  private readonly subscriptions: vscode.Disposable[];

  constructor(context: vscode.ExtensionContext) {
    this.environment = vscode.Uri.joinPath(context.globalStorageUri, 'venv').fsPath;
    this.subscriptions = [
      this.log,
      this.created,
      this.changed,
      vscode.workspace.onDidGrantWorkspaceTrust(() => this.startIfFound()),
      vscode.workspace.onDidChangeConfiguration((event) => this.onConfiguration(event)),
    ];
  }

  dispose(): void {
    this.isDisposed = true;
    void this.stop();
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  /** The running client. Where there can be none, the user is told what to do about it. */
  async client(): Promise<LanguageClient | undefined> {
    // A start takes some seconds; without a word of it a key would seem to do nothing.
    const options = { location: vscode.ProgressLocation.Window, title: 'Stet: starting the server' };
    const start = (): Promise<LanguageClient | undefined> => this.startIfFound();
    const client = await (this.isRunning ? start() : vscode.window.withProgress(options, start));
    if (!client) {
      // Not awaited: the message may stand there for long.
      void this.explain();
    }
    return client;
  }

  /** The running client, or undefined in silence: only who asks for a rewrite needs to know. */
  async startIfFound(): Promise<LanguageClient | undefined> {
    if (this.isDisposed) {
      return undefined;
    }
    const current = (this.current ??= this.create());
    const client = await current;
    if (this.current !== current) {
      // It was stopped before it began: started now, nobody would ever stop it.
      return this.startIfFound();
    }
    if (client && (await this.isStarted(client))) {
      return client;
    }
    // The next call looks again: the user may have installed or mended it meanwhile.
    if (this.current === current) {
      await this.stop();
    }
    this.changed.fire();
    return undefined;
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.client();
  }

  /** The program that is or would be run. Throws WrongSetting. */
  async program(): Promise<Program | undefined> {
    return findProgram({
      path: setting<string>('path'),
      interpreter: setting<string>('interpreter'),
      searchPath: process.env['PATH'] ?? '',
      python: await activePython(),
      environment: this.environment,
    });
  }

  /** The next client waits for this: two at once would both register the server's command. */
  private stop(): Promise<void> {
    const current = this.current;
    this.current = undefined;
    this.stopped = Promise.all([current, this.stopped]).then(async ([client]) => {
      try {
        // In the middle of its start it would refuse to stop, and live on.
        await Promise.race([this.starting, new Promise((resolve) => setTimeout(resolve, START_MS))]);
        await client?.dispose();
      } catch (error) {
        this.log.warn(`the server did not stop in order: ${String(error)}`);
      }
    });
    return this.stopped;
  }

  private async create(): Promise<LanguageClient | undefined> {
    await this.stopped;
    if (!vscode.workspace.isTrusted) {
      this.problem = 'off in Restricted Mode';
      return undefined;
    }
    try {
      const program = await this.program();
      this.problem = program ? undefined : NOT_INSTALLED;
      return program && this.clientOf(program);
    } catch (error) {
      if (!(error instanceof WrongSetting)) {
        throw error;
      }
      this.problem = error.message;
      return undefined;
    }
  }

  private clientOf(program: Program): LanguageClient {
    this.name = `${[program.command, ...program.args].join(' ')} (${program.source})`;
    this.log.info(`the server is ${this.name}`);
    const client = new QuietClient(
      'stet',
      'Stet',
      { command: program.command, args: [...program.args, 'lsp'], transport: TransportKind.stdio },
      {
        documentSelector: this.selector,
        outputChannel: this.log,
        revealOutputChannelOn: RevealOutputChannelOn.Never,
        initializationOptions: serverSettings,
        initializationFailedHandler: () => false,
        middleware: {
          executeCommand: (command, args, next): unknown =>
            this.onCommand ? this.onCommand(args[0]) : next(command, args),
        },
      },
    );
    client.onDidChangeState(({ newState }) => {
      this.isRunning = newState === State.Running;
      if (newState === State.Running) {
        this.problem = undefined;
      } else if (newState === State.Stopped) {
        this.problem ??= 'the server has stopped';
      }
      this.changed.fire();
    });
    this.created.fire(client);
    return client;
  }

  /** A client that is new is started here. One that crashes starts again by itself, a few times; then here as well. */
  private async isStarted(client: LanguageClient): Promise<boolean> {
    const start = client.start();
    this.starting = start.catch(() => undefined);
    try {
      await start;
    } catch (error) {
      this.log.error(`the server did not start: ${String(error)}`);
      this.problem = `${this.name} did not start as a server`;
      return false;
    }
    await vscode.commands.executeCommand('setContext', 'stet.ready', true);
    return true;
  }

  private async explain(): Promise<void> {
    if (!vscode.workspace.isTrusted) {
      const text = 'Stet is off in Restricted Mode: it starts no language server in a folder that you do not trust.';
      if ((await vscode.window.showWarningMessage(text, MANAGE_TRUST)) === MANAGE_TRUST) {
        await vscode.commands.executeCommand('workbench.trust.manage');
      }
      return;
    }
    const remedies = this.problem === NOT_INSTALLED ? [INSTALL, SET_PATH] : [SET_PATH, SHOW_LOG];
    const choice = await vscode.window.showErrorMessage(`Stet: ${this.problem ?? 'no server'}`, ...remedies);
    if (choice === INSTALL) {
      await vscode.commands.executeCommand('stet.install');
    } else if (choice === SET_PATH) {
      // In a remote window the settings of the machine are those of the other one, and not among the user's.
      const place = vscode.env.remoteName ? 'openRemoteSettings' : 'openSettings';
      await vscode.commands.executeCommand(`workbench.action.${place}`, { query: 'stet.path' });
    } else if (choice === SHOW_LOG) {
      this.log.show();
    }
  }

  private async onConfiguration(event: vscode.ConfigurationChangeEvent): Promise<void> {
    if (event.affectsConfiguration('stet.path') || event.affectsConfiguration('stet.interpreter')) {
      await this.stop();
      await this.startIfFound();
    } else if (event.affectsConfiguration('stet')) {
      const client = await this.current;
      if (client?.isRunning()) {
        await client.sendNotification('workspace/didChangeConfiguration', { settings: { stet: serverSettings() } });
      }
    }
  }
}

/** The interpreter that is chosen in the Python extension, if that is there. */
async function activePython(): Promise<string | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>('ms-python.python');
  const api = await extension?.activate();
  return api?.environments.getActiveEnvironmentPath().path;
}
