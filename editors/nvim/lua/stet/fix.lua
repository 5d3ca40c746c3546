--- Diagnostics of any language server or linter, as the server takes them.
local M = {}

---@param diagnostic vim.Diagnostic
---@param encoding string
---@return lsp.Diagnostic
local function to_lsp(diagnostic, encoding)
  local function position(row, byte)
    local line = vim.api.nvim_buf_get_lines(diagnostic.bufnr, row, row + 1, false)[1] or ''
    return { line = row, character = vim.str_utfindex(line, encoding, byte, false) }
  end
  return {
    range = {
      start = position(diagnostic.lnum, diagnostic.col),
      ['end'] = position(diagnostic.end_lnum or diagnostic.lnum, diagnostic.end_col or diagnostic.col),
    },
    message = diagnostic.message,
    severity = diagnostic.severity,
    source = diagnostic.source,
    code = diagnostic.code,
  }
end

--- Those of some rows; without any rows those at the cursor, or else of its line.
---@param rows? { [1]: integer, [2]: integer } 0-based, inclusive
---@param encoding string of the columns that are wanted
---@return lsp.Diagnostic[]
function M.diagnostics(rows, encoding)
  local row, col = unpack(vim.api.nvim_win_get_cursor(0))
  local first, last = unpack(rows or { row - 1, row - 1 })
  local found = vim.tbl_filter(function(each)
    return each.lnum <= last and (each.end_lnum or each.lnum) >= first
  end, vim.diagnostic.get(0))
  local at_cursor = vim.tbl_filter(function(each)
    return each.lnum == row - 1 and each.col <= col and col < math.max(each.end_col or 0, each.col + 1)
  end, found)
  return vim.tbl_map(function(each)
    return to_lsp(each, encoding)
  end, (rows or #at_cursor == 0) and found or at_cursor)
end

return M
