(() => {
  const show = (player) => {
    const audio = player.querySelector('audio'), track = player.querySelector('.clock-track');
    const now = audio.currentTime, share = Math.min(1, now / Number(track.dataset.seconds));
    track.querySelector('.clock-head').style.left = `${100 * share}%`;
    for (const block of track.querySelectorAll('.clock-tier button'))
      block.classList.toggle('now', now > 0 && now >= Number(block.dataset.start) && now < Number(block.dataset.end));
    const scroll = player.querySelector('.clock-scroll'), at = share * track.offsetWidth;
    if (audio.paused || !follows(scroll)) return;
    if (at < scroll.scrollLeft || at > scroll.scrollLeft + 0.9 * scroll.clientWidth)
      scroll.scrollLeft = at - 0.1 * scroll.clientWidth;
    scroll.clockLeft = scroll.scrollLeft;
  };
  // The track follows the sound until the visitor scrolls it or takes an edge: then it stays where they want it.
  const follows = (scroll) => {
    if (scroll.querySelector('.clock-grips .held')) scroll.clockLeft = NaN;
    return Math.abs(scroll.scrollLeft - scroll.clockLeft) < 2;
  };
  const follow = (player) => {
    show(player);
    const audio = player.querySelector('audio');
    if (player.isConnected && !audio.paused && !audio.ended) requestAnimationFrame(() => follow(player));
  };
  // Speech grows sentence by sentence: each new player goes on where the last one was, unless the visitor stopped it.
  let reached = 0, stopped = false;
  document.addEventListener('timeupdate', (event) => {
    if (event.target.dataset && event.target.dataset.plays) reached = event.target.currentTime;
  }, true);
  document.addEventListener('pause', (event) => {
    if (event.target.dataset && event.target.dataset.plays && event.target.isConnected) stopped = !event.target.ended;
  }, true);
  document.addEventListener('loadeddata', (event) => {
    const audio = event.target, plays = audio.dataset && audio.dataset.plays;
    if (!plays) return;
    if (plays === 'begins') { reached = 0; stopped = false; }
    else audio.currentTime = Math.min(reached, audio.duration);
    if (!stopped) audio.play().catch(() => {});
  }, true);
  // Media events do not bubble: listen in the capture phase.
  for (const name of ['play', 'pause', 'seeked', 'ended', 'loadeddata'])
    document.addEventListener(name, (event) => {
      const player = event.target.closest && event.target.closest('.clock-player');
      if (!player) return;
      if (name === 'play')
        for (const other of document.querySelectorAll('.clock-player audio'))
          if (other !== event.target) other.pause();
      const scroll = player.querySelector('.clock-scroll');
      if (name === 'play' || name === 'seeked') scroll.clockLeft = scroll.scrollLeft;
      name === 'play' ? follow(player) : show(player);
    }, true);
  document.addEventListener('click', (event) => {
    const block = event.target.closest && event.target.closest('.clock-tier button');
    if (!block) return;
    const audio = block.closest('.clock-player').querySelector('audio');
    audio.currentTime = Number(block.dataset.start) + 0.001;
    audio.play();
  });
})();
