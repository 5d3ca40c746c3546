-- Neovim's own config of the server: vim.lsp.enable('stet') is all it takes.
-- Handlers load their module when they are first called, so a start of Neovim costs nothing.

---@type vim.lsp.Config
return {
  cmd = { 'stet', 'lsp' },
  -- stylua: ignore
  filetypes = {
    'bash', 'c', 'clojure', 'cmake', 'cpp', 'cs', 'css', 'dart', 'dockerfile', 'elixir', 'elm', 'erlang', 'fish',
    'fsharp', 'gleam', 'go', 'graphql', 'groovy', 'haskell', 'html', 'java', 'javascript', 'javascriptreact', 'json',
    'jsonc', 'julia', 'kotlin', 'lua', 'make', 'markdown', 'nim', 'nix', 'objc', 'ocaml', 'perl', 'php', 'proto',
    'ps1', 'python', 'r', 'ruby', 'rust', 'scala', 'scheme', 'scss', 'sh', 'sql', 'svelte', 'swift', 'terraform',
    'tex', 'text', 'toml', 'typescript', 'typescriptreact', 'vim', 'vue', 'xml', 'yaml', 'zig', 'zsh',
  },
  root_markers = { { 'pyproject.toml', 'package.json', 'Cargo.toml', 'go.mod' }, '.git' },
  commands = {
    ['stet.rewrite'] = function(command, ctx)
      require('stet.commands').code_action(command, ctx)
    end,
  },
  handlers = {
    ['stet/progress'] = function(_, progress)
      require('stet.rewrite').on_progress(progress)
    end,
    ['window/showMessage'] = function(_, params)
      require('stet.say').from_server(params)
    end,
    ['workspace/applyEdit'] = function(err, params, ctx)
      return require('stet.edit').apply(err, params, ctx)
    end,
  },
}
