// A button that brings the models into the page. Nothing is loaded before it is pressed; where nothing can be loaded the recorded run stands there.
start('live', (root, {base}) => {
  const recorded = root.parentElement.querySelector('.sd-recorded'), mb = root.dataset.mb
  const sorry = why => {
    root.replaceChildren(make('p', {role: 'status'}, `${why} Above is a recorded run of the same models.`))
    if (recorded) recorded.hidden = false
  }
  if (!mb) return sorry('The models run in the browser on the docs site, where their files lie beside the pages; they do not here.')
  const say = make('p', {role: 'status'}, 'The trained pair decodes in this page: no server, no account. Nothing has been loaded yet.')
  const bar = make('progress', {max: 1, value: 0, 'aria-label': 'loading', hidden: ''})
  const told = ({came, all}) => {
    bar.value = came / all
    say.textContent = came < all ? `${(came / 1e6).toFixed(0)} of ${(all / 1e6).toFixed(0)} MB` : 'starting the models'
  }
  const open = async () => {
    button.disabled = true
    bar.hidden = false
    try {
      const page = await import(new URL(`${base}live/page.js`, document.baseURI))
      return await page.open(root, {make, slider, visible, plain, fate, share}, told)
    } catch (e) {
      sorry(`The models could not be started here (${e.message || e}).`)
      throw e
    }
  }
  let opened
  const load = () => opened ??= open()
  const button = make('button', {type: 'button', onclick: () => load().then(o => o.first(), () => {})}, `run it here (${mb} MB)`)
  root.append(say, make('div', {class: 'sd-row'}, button, bar))
  const call = name => async given => (await load()).engine.call(name, given)
  window.specdecLive ??= {load: async () => { await load() }, ...Object.fromEntries(['encode', 'decode', 'generate', 'plain'].map(o => [o, call(o)]))}
})
