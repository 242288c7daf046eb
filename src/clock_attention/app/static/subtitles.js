// Subtitles from a file of the visitor's: read here, put into the text field, and never uploaded.
(() => {
  const LARGEST = 200000;  // bytes

  const decoded = (bytes) => {
    const [first, second] = new Uint8Array(bytes);
    if (first === 0xff && second === 0xfe) return new TextDecoder('utf-16le').decode(bytes);
    if (first === 0xfe && second === 0xff) return new TextDecoder('utf-16be').decode(bytes);
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch {
      return new TextDecoder('windows-1252').decode(bytes);
    }
  };

  const take = async (file, label) => {
    const said = label.querySelector('output');
    if (file.size > LARGEST) {
      said.textContent = `${file.name} is too large: ${LARGEST} bytes at most.`;
      return;
    }
    window.clockSubtitles = decoded(await file.arrayBuffer());
    said.textContent = file.name;
    document.querySelector('#subtitles-load').click();  // hidden: puts the text into the field, see page.py
  };

  document.addEventListener('change', (event) => {
    const label = event.target.closest && event.target.closest('.clock-file');
    if (label && event.target.files.length) take(event.target.files[0], label);
    if (label) event.target.value = '';
  });
})();
