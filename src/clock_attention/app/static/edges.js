// Edges of words that can be moved with a mouse, a finger or the arrow keys, and speech with the new times.
// Times are whole frames here, as in the model.
(() => {
  const REACH = 22;  // pixels to each side in which an edge is found
  const LONGEST = 120;  // seconds

  // What is on a track: its words and phonemes with the blocks that show them. Made when first touched; the page may
  // put the next speech into the same elements.
  const score = (track) => {
    if (track.clockScore && track.clockScore.speech === track.dataset.speech) return track.clockScore;
    const frame = Number(track.dataset.frame);
    const read = (block) => ({
      block, label: block.textContent, least: Number(block.dataset.least || 1),
      start: Math.round(block.dataset.start / frame), end: Math.round(block.dataset.end / frame),
    });
    const words = [...track.querySelectorAll('.clock-words button')].map(read);
    const phones = [...track.querySelectorAll('.clock-phones button')].map(read);
    for (const phone of phones)
      phone.word = words.findIndex((word) => phone.start >= word.start && phone.end <= word.end);
    const total = Math.round(track.dataset.seconds / frame);
    return track.clockScore = {
      speech: track.dataset.speech, frame, words, phones, total, first: { total, words: words.map(({ start, end }) => ({ start, end })) },
      pixels: track.offsetWidth / total,
    };
  };

  const edge = (grip) => {
    const number = (text) => (text === '' ? null : Number(text));
    return { ends: number(grip.dataset.ends), begins: number(grip.dataset.begins) };
  };
  const place = ({ words }, { ends, begins }) => (ends === null ? words[begins].start : words[ends].end);

  // The times after an edge was moved to a frame, from the times before. Every word keeps a frame for each phoneme.
  const moved = (score, before, { ends, begins }, to, along) => {
    const { words, frame } = score;
    const times = before.words.map((word) => ({ ...word })), last = times.length - 1;
    let total = before.total;
    const from = ends === null ? times[begins].start : times[ends].end;
    const lower = ends !== null ? times[ends].start + words[ends].least : begins > 0 ? times[begins - 1].end : 0;
    if (along) {
      const shift = Math.min(Math.max(to, lower) - from, Math.floor(LONGEST / frame) - total);
      if (ends !== null) times[ends].end += shift;
      for (let word = ends === null ? begins : ends + 1; word <= last; word++) {
        times[word].start += shift;
        times[word].end += shift;
      }
      total += shift;
    } else {
      const upper = begins !== null ? times[begins].end - words[begins].least : ends < last ? times[ends + 1].start : total;
      const at = Math.min(Math.max(to, lower), Math.max(upper, lower));
      if (ends !== null) times[ends].end = at;
      if (begins !== null) times[begins].start = at;
    }
    return { total, words: times };
  };

  const times = ({ total, words }) => ({ total, words: words.map(({ start, end }) => ({ start, end })) });

  const lay = (track, { total, words: now }) => {
    const s = score(track), { words, phones, first, frame } = s;
    s.total = total;
    now.forEach(({ start, end }, number) => Object.assign(words[number], { start, end }));
    const put = (block, start, end) => {
      block.style.left = `${100 * start / total}%`;
      block.style.width = `${100 * (end - start) / total}%`;
    };
    track.style.minWidth = track.style.width = `${s.pixels * total}px`;
    for (const word of words) {
      put(word.block, word.start, word.end);
      word.block.title = `${word.label} ${(word.start * frame).toFixed(2)}–${(word.end * frame).toFixed(2)} s`;
    }
    for (const phone of phones) {
      if (phone.word < 0) continue;
      const was = first.words[phone.word], is = words[phone.word], scale = (is.end - is.start) / (was.end - was.start);
      put(phone.block, is.start + (phone.start - was.start) * scale, is.start + (phone.end - was.start) * scale);
    }
    for (const grip of track.querySelectorAll('.clock-grips i')) {
      const at = place(s, edge(grip));
      grip.style.left = `${100 * at / total}%`;
      grip.setAttribute('aria-valuenow', (at * frame).toFixed(2));
      grip.setAttribute('aria-valuemax', (total * frame).toFixed(2));
    }
    note(track);
  };

  const note = (track) => {
    const { words, first, total, frame } = score(track), player = track.closest('.clock-player');
    const seconds = (frames) => `${(frames * frame).toFixed(2)} s`;
    const parts = words.map((word, number) => [word, first.words[number]])
      .filter(([word, was]) => word.end - word.start !== was.end - was.start)
      .map(([word, was]) => `${word.label} ${seconds(was.end - was.start)} → ${seconds(word.end - word.start)}`);
    const changed = total !== first.total || words.some((word, number) => word.start !== first.words[number].start || word.end !== first.words[number].end);
    const more = parts.length > 4 ? `, and ${parts.length - 4} more` : '';
    const output = player.querySelector('.clock-note');
    output.dataset.hint = output.dataset.hint || output.textContent;
    output.textContent = !changed ? output.dataset.hint
      : [parts.slice(0, 4).join(', ') + more || 'silences changed', `${seconds(total)} in all`].join(' · ');
    track.classList.toggle('moved', changed);
    for (const name of ['again', 'reset']) player.querySelector(`.clock-${name}`).disabled = !changed;
  };

  const along = (track) => track.closest('.clock-player').querySelector('.clock-along').checked;

  document.addEventListener('pointerdown', (event) => {
    const rail = event.target.closest && event.target.closest('.clock-grips');
    if (!rail || event.button > 0) return;
    const track = rail.closest('.clock-track'), s = score(track);
    const distance = (grip) => {
      const box = grip.getBoundingClientRect();
      return Math.abs(box.left + box.width / 2 - event.clientX);
    };
    // The nearest, not the topmost: the grips of short words lie close together.
    const grip = [...rail.querySelectorAll('i')].reduce((best, each) => (distance(each) < distance(best) ? each : best));
    if (distance(grip) > REACH) return;
    event.preventDefault();
    rail.setPointerCapture(event.pointerId);
    grip.focus({ preventScroll: true });
    grip.classList.add('held');
    if (!track.classList.contains('moved')) s.pixels = track.offsetWidth / s.total;
    const before = times(s), held = edge(grip), from = place(s, held), x = event.clientX;
    const move = (now) => lay(track, moved(s, before, held, from + Math.round((now.clientX - x) / s.pixels), along(track)));
    const drop = () => {
      grip.classList.remove('held');
      rail.removeEventListener('pointermove', move);
      for (const name of ['pointerup', 'pointercancel']) rail.removeEventListener(name, drop);
    };
    rail.addEventListener('pointermove', move);
    for (const name of ['pointerup', 'pointercancel']) rail.addEventListener(name, drop);
  });

  document.addEventListener('keydown', (event) => {
    const grip = event.target.closest && event.target.closest('.clock-grips i');
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!grip || !step) return;
    event.preventDefault();
    const track = grip.closest('.clock-track'), s = score(track), held = edge(grip);
    const to = place(s, held) + step * (event.shiftKey ? 10 : 1);
    lay(track, moved(s, times(s), held, to, along(track)));
  });

  document.addEventListener('click', (event) => {
    const button = event.target.closest && event.target.closest('.clock-again, .clock-reset');
    if (!button) return;
    const track = button.closest('.clock-player').querySelector('.clock-track'), s = score(track);
    if (button.classList.contains('clock-reset')) return lay(track, s.first);
    button.disabled = true;  // until something is dragged again
    // Read by the page's hidden button, see page.py.
    window.clockTimes = JSON.stringify({
      // The voice that spoke this; another one may have been chosen since.
      voice: track.dataset.voice, decoding: track.dataset.decoding,
      text: track.dataset.text, seconds: s.total * s.frame,
      words: s.words.map(({ label, start, end }) => [label, start * s.frame, end * s.frame]),
    });
    document.querySelector('#again').click();
  });
})();
