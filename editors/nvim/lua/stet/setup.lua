--- `:StetSetup`: choose a model that suits the machine, fetch it once the user agrees, and use it.
local program = require('stet.program')
local say = require('stet.say')

local M = {}

---@class stet.Fit a preset on this machine, as `stet models fit --json` says it
---@field preset string
---@field model string
---@field fits boolean
---@field fetched boolean
---@field download_bytes integer
---@field why string
---@field with_dtype? string what the setting dtype must be for it to take what it says

---@param bytes integer
---@return string
local function size(bytes)
  return ('%.1f GB'):format(bytes / 1e9)
end

---@param fit stet.Fit
---@param recommended? string
---@return string
local function line_of(fit, recommended)
  local fetch = fit.fetched and 'is here' or size(fit.download_bytes) .. ' to fetch'
  local mark = fit.preset == recommended and ' (recommended)' or ''
  return ('%s: %s, %s, %s%s'):format(fit.preset, fit.model, fetch, fit.why, mark)
end

--- The dtype that the user has set.
---@return string?
local function dtype_set()
  local dtype = vim.tbl_get(vim.lsp.config.stet, 'init_options', 'dtype')
  return dtype ~= 'auto' and dtype or nil
end

--- What the setting dtype must become for this preset; nil: it stays as it is, as what the user has set does.
---@param fit stet.Fit
---@return string?
local function dtype_for(fit)
  return not dtype_set() and fit.with_dtype ~= 'auto' and fit.with_dtype or nil
end

--- Have all servers use a model, and those to come.
---@param model string
---@param dtype? string nil: as it is set
local function use(model, dtype)
  local settings = { model = model, dtype = dtype }
  vim.lsp.config('stet', { init_options = settings })
  local to_keep = vim.inspect({ init_options = settings }, { newline = ' ', indent = '' })
  settings = vim.lsp.config.stet.init_options
  for _, client in ipairs(vim.lsp.get_clients({ name = 'stet' })) do
    client:notify('workspace/didChangeConfiguration', { settings = { stet = settings } })
  end
  say.info(("using %s. To keep it: vim.lsp.config('stet', %s)"):format(model, to_keep))
end

--- Fetch in a terminal: the program says what, how large and from where, and asks before it does.
---@param path string of the program
---@param model string
---@param dtype? string
local function fetch(path, model, dtype)
  vim.cmd('botright 12new')
  vim.fn.jobstart({ path, 'models', 'fetch', model }, {
    term = true,
    env = vim.lsp.config.stet.cmd_env,
    on_exit = function(_, code)
      if code == 0 then
        use(model, dtype)
      else
        say.warn(model .. ' was not fetched (:StetSetup goes on where it stopped)')
      end
    end,
  })
  vim.cmd.startinsert()
end

--- Weights that the user has brought: no network is needed for them.
local function ask_path()
  vim.ui.input({ prompt = 'Folder or GGUF file: ', completion = 'file' }, function(path)
    path = path and vim.fs.normalize(vim.trim(path))
    if path and vim.uv.fs_stat(path) then
      use(path)
    elseif path and path ~= '' then
      say.error('there is no ' .. path)
    end
  end)
end

---@param path string of the program
---@param answer { presets: stet.Fit[], recommended?: string }
local function choose(path, answer)
  local choices = vim.list_extend({}, answer.presets)
  table.insert(choices, 'path')
  vim.ui.select(choices, {
    prompt = 'Stet: which model?',
    format_item = function(choice)
      return choice == 'path' and 'weights of my own, without a network' or line_of(choice, answer.recommended)
    end,
  }, function(choice)
    if choice == 'path' then
      ask_path()
    elseif choice and choice.fetched then
      use(choice.preset, dtype_for(choice))
    elseif choice then
      fetch(path, choice.preset, dtype_for(choice))
    end
  end)
end

function M.run()
  local path, problem = program.find()
  if not path then
    say.error(problem .. ': install it first (pipx install stet-lsp)')
    return
  end
  say.info('looking what suits this machine ...')
  local words = { 'models', 'fit', '--json' }
  if dtype_set() then
    vim.list_extend(words, { '--dtype', dtype_set() })
  end
  program.json_later(path, words, function(answer, failure)
    if answer then
      choose(path, answer)
    else
      say.error('stet models fit gave no answer: ' .. failure)
    end
  end)
end

return M
