--- LSP ranges from Neovim's cursor, commands and selections. A rewrite is of whole lines, so columns count for nothing
--- but the cursor.
local M = {}

---@param first integer 1-based
---@param last integer 1-based, inclusive
---@return lsp.Range
local function lines(first, last)
  return { start = { line = first - 1, character = 0 }, ['end'] = { line = last, character = 0 } }
end

--- The cursor as an empty range: the server widens it to the block around it.
---@param encoding string
---@return lsp.Range
function M.cursor(encoding)
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  local character = vim.str_utfindex(vim.api.nvim_get_current_line(), encoding, col, false)
  local here = { line = row - 1, character = character }
  return { start = here, ['end'] = here }
end

--- The selection of the running visual mode.
---@return lsp.Range
function M.selection()
  local here, there = vim.fn.line('.'), vim.fn.line('v')
  return lines(math.min(here, there), math.max(here, there))
end

--- What a user command was given: its lines, or the cursor.
---@param args vim.api.keyset.create_user_command.command_args
---@param encoding string
---@return lsp.Range
function M.of_command(args, encoding)
  return args.range == 0 and M.cursor(encoding) or lines(args.line1, args.line2)
end

return M
