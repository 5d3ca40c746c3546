/**
 * What the extension promises, in VS Code's own extension host against the real language server; by subject. tests/editor starts
 * it, and reads the outcome of each test from .outcomes.json in the open folder.
 *
 * The engine is a stand-in (tests/editor/paced_engine.py): it carries out `s/old/new/` on the source, one line a pass.
 */

import './rewriting';
import './reviewing';
import './several';
import './asking';
import './versions';
import './notebooks';
import './setup';

export { run } from './harness';
