--- LSP ranges from Neovim's cursor, commands and selections.
local M = {}

---@param row integer 0-based
---@param byte integer
---@param encoding string
---@return lsp.Position
local function position(row, byte, encoding)
  local line = vim.api.nvim_buf_get_lines(0, row, row + 1, false)[1] or ''
  return { line = row, character = vim.str_utfindex(line, encoding, byte, false) }
end

---@param first integer 1-based; 0, which `:0Stet` says, is the first line too
---@param last integer 1-based, inclusive
---@return lsp.Range
local function lines(first, last)
  first, last = math.max(first, 1), math.max(last, 1)
  return { start = { line = first - 1, character = 0 }, ['end'] = { line = last, character = 0 } }
end

--- The characters from one place up to another, the last one included ('selection' tells).
---@param from integer[] as getpos() has it
---@param to integer[]
---@param encoding string
---@return lsp.Range
local function characters(from, to, encoding)
  if to[2] < from[2] or (to[2] == from[2] and to[3] < from[3]) then
    from, to = to, from
  end
  local line = vim.fn.getline(to[2])
  local stop = math.min(to[3] - 1, #line)
  if vim.o.selection ~= 'exclusive' then
    stop = stop + #vim.fn.strcharpart(line:sub(stop + 1), 0, 1, true)
  end
  return { start = position(from[2] - 1, from[3] - 1, encoding), ['end'] = position(to[2] - 1, stop, encoding) }
end

---@param mode string as mode() and visualmode() have it
---@param from integer[]
---@param to integer[]
---@param encoding string
---@return lsp.Range
local function selected(mode, from, to, encoding)
  if mode == 'v' then
    return characters(from, to, encoding)
  end
  return lines(math.min(from[2], to[2]), math.max(from[2], to[2]))
end

--- The cursor as an empty range: the server widens it to the block around it.
---@param encoding string
---@return lsp.Range
function M.cursor(encoding)
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  local here = position(row - 1, col, encoding)
  return { start = here, ['end'] = here }
end

--- The selection of the running visual mode: `v` means its characters, `V` and a block their lines.
---@param encoding string
---@return lsp.Range
function M.selection(encoding)
  return selected(vim.fn.mode(), vim.fn.getpos('v'), vim.fn.getpos('.'), encoding)
end

---@return boolean
function M.is_visual()
  return vim.fn.mode():find('^[vV\22]') ~= nil
end

--- The last typed command that was looked at, by its number in the history.
local n_seen = -1

--- Whether the lines that a command was given are those of the last selection. A typed `4,8` that happens to be the
--- same lines isn't; what a map says is not in the history.
---@param args vim.api.keyset.create_user_command.command_args
---@return boolean
local function is_last_selection(args)
  local typed, n = vim.fn.histget(':', -1), vim.fn.histnr(':')
  local words = args.name .. (args.args == '' and '' or ' ' .. args.args)
  local is_typed = n ~= n_seen and vim.endswith(typed, words)
  n_seen = n
  if is_typed and not typed:find("'<,'>", 1, true) then
    return false
  end
  return args.line1 == vim.fn.line("'<") and args.line2 == vim.fn.line("'>")
end

--- What a user command was given: a selection, lines, or the cursor.
---@param args vim.api.keyset.create_user_command.command_args
---@param encoding string
---@return lsp.Range
function M.of_command(args, encoding)
  if args.range == 0 then
    return M.is_visual() and M.selection(encoding) or M.cursor(encoding)
  elseif args.range == 2 and is_last_selection(args) then
    return selected(vim.fn.visualmode(), vim.fn.getpos("'<"), vim.fn.getpos("'>"), encoding)
  end
  return lines(args.line1, args.line2)
end

return M
