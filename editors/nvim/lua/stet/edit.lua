--- The server's workspace/applyEdit, as one undo step of its own. Knows no jobs.
local M = {}

--- Close the undo block that is open in buf, so that what the user types and what the server edits stay apart.
---@param buf integer
local function break_undo(buf)
  vim.bo[buf].undolevels = vim.bo[buf].undolevels
end

--- Answers `applied = false` to an edit that can't be made. Neovim's own handler skips one of an older version, yet
--- answers true, and one of a buffer that is not modifiable ends in an error.
---@param err lsp.ResponseError?
---@param params lsp.ApplyWorkspaceEditParams
---@param ctx lsp.HandlerContext
---@return lsp.ApplyWorkspaceEditResult
function M.apply(err, params, ctx)
  local buffers = {}
  for _, change in ipairs(params.edit.documentChanges or {}) do
    local document = change.textDocument
    local buf = vim.uri_to_bufnr(document.uri)
    local version = vim.lsp.util.buf_versions[buf]
    if type(document.version) == 'number' and version and version ~= document.version then
      return { applied = false, failureReason = 'the buffer has changed since' }
    end
    if not vim.bo[buf].modifiable then
      return { applied = false, failureReason = "'modifiable' is off in this buffer" }
    end
    table.insert(buffers, buf)
  end
  -- Neovim would print the label over what the user sees.
  params.label = nil
  vim.tbl_map(break_undo, buffers)
  local answer = vim.lsp.handlers['workspace/applyEdit'](err, params, ctx)
  vim.tbl_map(break_undo, buffers)
  vim.tbl_map(require('stet.screen').hide_taken, buffers)
  return answer
end

return M
