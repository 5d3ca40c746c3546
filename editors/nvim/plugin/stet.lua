-- The commands and <Plug> maps. Everything else loads when one of them is used.
if vim.g.loaded_stet then
  return
end
vim.g.loaded_stet = true

--- A command, and a map of the same meaning: name `Accept` makes `:StetAccept` and `<Plug>(stet-accept)`.
---@param name string
---@param call string `module.function` of this plugin
---@param opts vim.api.keyset.user_command
---@param modes? string[]
local function add(name, call, opts, modes)
  local module, fn = call:match('^(%w+)%.([%w_]+)$')
  local function run(args)
    if not opts.range then
      require('stet.diff').to_source()
    end
    require('stet.' .. module)[fn](args)
  end
  opts.desc = 'Stet: ' .. opts.desc
  vim.api.nvim_create_user_command('Stet' .. name, run, opts)
  local plug = name:gsub('%u', function(letter)
    return '-' .. letter:lower()
  end)
  vim.keymap.set(modes or { 'n' }, '<Plug>(stet' .. plug .. ')', function()
    run()
  end, { desc = opts.desc })
end

local BOTH = { 'n', 'x' }

add('', 'commands.rewrite', {
  desc = 'rewrite the range, or the block at the cursor',
  range = true,
  nargs = '*',
  complete = function(lead)
    return require('stet.commands').complete(lead)
  end,
}, BOTH)
add('Recipe', 'commands.recipe', { desc = 'pick a recipe, then rewrite', range = true }, BOTH)
add('Fix', 'commands.fix', { desc = 'fix what is reported at the cursor, or in the range', range = true }, BOTH)
add('Repeat', 'commands.repeat_last', { desc = 'do the same as last time', range = true }, BOTH)
add('Accept', 'commands.accept', { desc = 'apply the rewrite that is shown' })
add('Reject', 'commands.reject', { desc = 'drop the rewrite that is shown', bang = true })
add('Cancel', 'commands.cancel', { desc = 'stop the rewrite that is running' })
add('AcceptHunk', 'hunks.accept', { desc = 'apply the change at the cursor' })
add('RejectHunk', 'hunks.reject', { desc = 'drop the change at the cursor' })
add('Next', 'hunks.next', { desc = 'go to the next change' })
add('Previous', 'hunks.previous', { desc = 'go to the previous change' })
add('Again', 'versions.again', { desc = 'once more: another version, or in firmer words what changed nothing' })
add('Refine', 'versions.refine', { desc = 'tell what the proposal is to do as well', nargs = '*' })
add('Version', 'versions.next', { desc = 'show the next version of the proposal' })
add('Diff', 'diff.toggle', { desc = 'compare the buffer and the proposal side by side, or stop that' })
add('Provenance', 'provenance.toggle', { desc = 'show what the model wrote, or what differs' })
add('Setup', 'setup.run', { desc = 'choose and fetch a model' })
