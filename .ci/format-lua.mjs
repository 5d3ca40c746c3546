// Format Lua files as StyLua does; with --check only say which are not so. Its npm package is a library without a command.
// Usage: node .ci/format-lua.mjs STYLUA_FOLDER [--check] FILES
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

const [folder, ...rest] = process.argv.slice(2);
const stylua = createRequire(resolve(folder, 'package.json'))('@johnnymorganz/stylua');

function format(text) {
  const config = stylua.Config.new(); // each use consumes one
  config.column_width = 120;
  config.indent_type = stylua.IndentType.Spaces;
  config.indent_width = 2;
  config.quote_style = stylua.QuoteStyle.AutoPreferSingle;
  return stylua.formatCode(text, config, undefined, stylua.OutputVerification.Full);
}

const isCheck = rest[0] === '--check';
for (const file of isCheck ? rest.slice(1) : rest) {
  const text = readFileSync(file, 'utf8');
  const formatted = format(text);
  if (formatted === text) {
    continue;
  } else if (isCheck) {
    console.error(`${file} is not formatted: make format`);
    process.exitCode = 1;
  } else {
    writeFileSync(file, formatted);
  }
}
