-- The commands and <Plug> maps. Everything else loads when one of them is used.
if vim.g.loaded_stet then
  return
end
vim.g.loaded_stet = true

local function command(name, call, opts)
  vim.api.nvim_create_user_command(name, function(args)
    require('stet')[call](args)
  end, opts)
end

command('Stet', 'command', { range = true, nargs = '*', desc = 'Rewrite the range, or the block at the cursor' })
command('StetAccept', 'accept', { desc = 'Apply the rewrite that is shown' })
command('StetReject', 'reject', { desc = 'Drop the rewrite that is shown' })
command('StetCancel', 'cancel', { desc = 'Stop the rewrite that is running' })
command('StetAgain', 'again', { desc = 'Repeat the rewrite that changed nothing, in firmer words' })

local function plug(modes, name, call)
  vim.keymap.set(modes, '<Plug>(stet' .. name .. ')', function()
    require('stet')[call]()
  end, { desc = 'Stet: ' .. call })
end

plug('n', '', 'ask')
plug('x', '', 'ask_selection')
plug('n', '-accept', 'accept')
plug('n', '-reject', 'reject')
plug('n', '-cancel', 'cancel')
plug('n', '-again', 'again')
