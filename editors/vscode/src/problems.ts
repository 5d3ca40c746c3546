/** What any extension has found wrong in a document, as the server's quick fix wants it. */

import * as vscode from 'vscode';
import type { Diagnostic, Target } from './protocol';

/** The recipe that needs them. */
export const FIX = 'fix-diagnostic';

/** In the lines of a range. */
export function problemsIn({ textDocument, range }: Target): Diagnostic[] {
  const { start, end } = range;
  // A selection of whole lines ends at the beginning of the next one: that is not selected.
  const last = end.character === 0 && end.line > start.line ? end.line - 1 : end.line;
  return vscode.languages
    .getDiagnostics(vscode.Uri.parse(textDocument.uri))
    .filter((each) => each.severity !== vscode.DiagnosticSeverity.Hint)
    .filter((each) => each.range.start.line <= last && each.range.end.line >= start.line)
    .map((each) => ({
      range: {
        start: { line: each.range.start.line, character: each.range.start.character },
        end: { line: each.range.end.line, character: each.range.end.character },
      },
      message: each.message,
    }));
}
