--- The new lines of a hunk, whole ones: a hunk may begin and end inside a line.
local M = {}

---@alias stet.Part { line: integer, start: integer, end: integer } characters of a line of a hunk's new text

---@class stet.Hunk as the server sends it, and where it is now
---@field id integer
---@field range lsp.Range in the version that the server knew
---@field newText string
---@field removed lsp.Range[] what differs within old lines
---@field added stet.Part[] what differs within new ones
---@field written? stet.Part[] what the model wrote itself; nil: the engine doesn't say
---@field first integer row in the buffer as it is
---@field stop integer row after the last
---@field is_taken? boolean accepted, and on its way

--- Lines without their ends.
---@param text string
---@return string[]
function M.split(text)
  return text == '' and {} or vim.split((text:gsub('\r', ''):gsub('\n$', '')), '\n')
end

--- A row's text before and after a position in it.
---@param buf integer
---@param row integer
---@param character integer
---@param encoding string
---@return string before
---@return string after
function M.around(buf, row, character, encoding)
  local line = vim.api.nvim_buf_get_lines(buf, row, row + 1, false)[1] or ''
  local at = vim.str_byteindex(line, encoding, character, false)
  return line:sub(1, at), line:sub(at + 1)
end

--- What the hunk's rows are to become, and how many bytes before its own text its first line has.
---@param buf integer
---@param hunk stet.Hunk
---@param encoding string
---@return string[]
---@return integer
function M.of(buf, hunk, encoding)
  local before, after = '', ''
  if hunk.range.start.character > 0 then
    before = M.around(buf, hunk.first, hunk.range.start.character, encoding)
  end
  if hunk.range['end'].character > 0 then
    after = select(2, M.around(buf, hunk.stop - 1, hunk.range['end'].character, encoding))
  end
  return M.split(before .. hunk.newText .. after), #before
end

return M
