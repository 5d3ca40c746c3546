--- Where lines are that the server speaks of: it may know an older version of the buffer than the one on the screen.
local M = {}

---@class stet.Change lines that became others
---@field version integer of the buffer, after it
---@field first integer row
---@field old_stop integer row after the last, before it
---@field new_stop integer row after the last, after it

--- Rows first up to stop, after a change.
---@param first integer
---@param stop integer
---@param change stet.Change
---@return integer first
---@return integer stop
function M.moved(first, stop, change)
  local by = change.new_stop - change.old_stop
  if change.old_stop <= first then
    return first + by, stop + by
  elseif change.first >= stop then
    return first, stop
  end
  return math.min(first, change.first), math.max(stop, change.old_stop) + by
end

--- Rows first up to stop of an older version, in the buffer as it is.
---@param first integer
---@param stop integer
---@param version integer
---@param changes stet.Change[] in order
---@return integer first
---@return integer stop
function M.moved_since(first, stop, version, changes)
  for _, change in ipairs(changes) do
    if change.version > version then
      first, stop = M.moved(first, stop, change)
    end
  end
  return first, stop
end

--- The rows that a range touches.
---@param range lsp.Range
---@return integer first
---@return integer stop the row after the last
function M.rows(range)
  return range.start.line, range['end'].line + (range['end'].character > 0 and 1 or 0)
end

--- Tell of each change of buf's lines until on_change returns true.
---@param buf integer
---@param on_change fun(change: stet.Change): boolean?
function M.watch(buf, on_change)
  vim.api.nvim_buf_attach(buf, false, {
    on_lines = function(_, _, version, first, old_stop, new_stop)
      return on_change({ version = version, first = first, old_stop = old_stop, new_stop = new_stop })
    end,
  })
end

return M
