--- LSP ranges from Neovim's lines, selections and cursor. Knows nothing of the server but its position encoding.
local M = {}

---@param buf integer
---@param row integer 0-based
---@return string
local function line_at(buf, row)
  return vim.api.nvim_buf_get_lines(buf, row, row + 1, false)[1] or ''
end

---@param buf integer
---@param row integer 0-based
---@param col integer 0-based byte column
---@param encoding string
---@return lsp.Position
local function position(buf, row, col, encoding)
  local line = line_at(buf, row)
  return { line = row, character = vim.str_utfindex(line, encoding, math.min(col, #line), false) }
end

--- Whole lines, without the line end of the last one.
---@param buf integer
---@param first integer 1-based
---@param last integer 1-based, inclusive
---@param encoding string
---@return lsp.Range
function M.lines(buf, first, last, encoding)
  return {
    start = position(buf, first - 1, 0, encoding),
    ['end'] = position(buf, last - 1, math.huge, encoding),
  }
end

--- From one character to another, both included, in whichever order they come.
---@param buf integer
---@param from integer[] as getpos() gives it
---@param to integer[] as getpos() gives it
---@param encoding string
---@return lsp.Range
function M.characters(buf, from, to, encoding)
  if from[2] > to[2] or (from[2] == to[2] and from[3] > to[3]) then
    from, to = to, from
  end
  local row, col = to[2] - 1, to[3] - 1
  if vim.o.selection ~= 'exclusive' then
    -- The column is where the last character begins. It may have several bytes and carry accents.
    col = col + #vim.fn.matchstr(line_at(buf, row):sub(col + 1), '.')
  end
  return {
    start = position(buf, from[2] - 1, from[3] - 1, encoding),
    ['end'] = position(buf, row, col, encoding),
  }
end

--- The cursor as an empty range: the server widens it to the enclosing block.
---@param buf integer
---@param encoding string
---@return lsp.Range
function M.cursor(buf, encoding)
  local at = vim.api.nvim_win_get_cursor(0)
  local here = position(buf, at[1] - 1, at[2], encoding)
  return { start = here, ['end'] = here }
end

--- What a user command's range means. `:'<,'>Stet` after a charwise selection means its characters, not its lines;
--- only the typed text tells it from `:3,5Stet`, and only the history has that.
---@param buf integer
---@param args vim.api.keyset.create_user_command.command_args
---@param encoding string
---@return lsp.Range
function M.of_command(buf, args, encoding)
  if args.range == 0 then
    return M.cursor(buf, encoding)
  end
  if vim.fn.visualmode() == 'v' and vim.startswith(vim.fn.histget('cmd', -1), "'<,'>") then
    return M.characters(buf, vim.fn.getpos("'<"), vim.fn.getpos("'>"), encoding)
  end
  return M.lines(buf, args.line1, args.line2, encoding)
end

--- The selection of the running visual mode.
---@param buf integer
---@param encoding string
---@return lsp.Range
function M.of_selection(buf, encoding)
  local from, to = vim.fn.getpos('v'), vim.fn.getpos('.')
  if vim.fn.mode() == 'v' then
    return M.characters(buf, from, to, encoding)
  end
  return M.lines(buf, math.min(from[2], to[2]), math.max(from[2], to[2]), encoding)
end

return M
