--- Messages to the user: one line each.
local M = {}

--- nvim_echo(), under vim.notify(), waits for a key after a message wider than the screen, and so eats one that is
--- typed just then. :echomsg shortens it (outside a command: hence the schedule), and :messages has all of it.
---@param text string
---@param level integer
local function say(text, level)
  text = 'stet: ' .. text:gsub('%s*\n%s*', ' ')
  if M.fits(text) then
    vim.notify(text, level)
    return
  end
  vim.schedule(function()
    vim.cmd.echohl(level == vim.log.levels.ERROR and 'ErrorMsg' or 'None')
    vim.cmd.echomsg(vim.fn.string(text))
    vim.cmd.echohl('None')
  end)
end

--- Whether a line can be shown whole.
---@param text string
---@return boolean
function M.fits(text)
  return vim.fn.strdisplaywidth(text) <= vim.v.echospace
end

--- `window/showMessage`. Neovim's own handler would wait for a key after a long one.
---@param params lsp.ShowMessageParams
function M.from_server(params)
  local levels = { vim.log.levels.ERROR, vim.log.levels.WARN }
  say((params.message:gsub('^Stet: ', '')), levels[params.type] or vim.log.levels.INFO)
end

---@param text string
function M.info(text)
  say(text, vim.log.levels.INFO)
end

---@param text string
function M.warn(text)
  say(text, vim.log.levels.WARN)
end

---@param text string
function M.error(text)
  say(text, vim.log.levels.ERROR)
end

return M
