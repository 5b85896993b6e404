// What pages do beyond links and forms. Every text from a session comes as text, never as code.
(() => {
  "use strict";
  const find = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const token = find('meta[name="form-token"]')?.content ?? "";
  const tell = (text) => { const place = find("#say"); if (place) place.textContent = text; };

  const post = async (url, fields) => {
    const response = await fetch(url, {
      method: "POST",
      headers: { "X-Form-Token": token },
      body: new URLSearchParams(fields),
    });
    return response.ok ? "" : (await response.text()) || "That did not work.";
  };

  // -- colours
  const changeColours = () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try { localStorage.setItem("holdfast-theme", root.dataset.theme); } catch { /* only for now */ }
    tell(`${root.dataset.theme} colours`);
  };

  // -- menus close when something else is meant
  document.addEventListener("click", (event) => {
    for (const menu of all("details[data-menu][open]")) if (!menu.contains(event.target)) menu.open = false;
    if (event.target.closest?.("#theme")) changeColours();
    const opener = event.target.closest?.("[data-open]");
    if (opener) find(`#${opener.dataset.open}`)?.showModal();
  });

  // -- keyboard
  const stops = () => all("[data-row], [data-item]").filter((one) => one.offsetParent !== null);
  const focusOn = (one) => {
    const target = one.matches("details") ? find("summary", one) : one;
    target.focus();
    target.scrollIntoView({ block: "nearest" });
  };
  const step = (by) => {
    const places = stops();
    if (!places.length) return;
    const at = places.findIndex((one) => one === document.activeElement || one.contains(document.activeElement));
    focusOn(places[Math.min(Math.max(at < 0 ? (by > 0 ? 0 : places.length - 1) : at + by, 0), places.length - 1)]);
  };
  let leader = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const isTyping = event.target.matches?.("input:not([type=range]):not([type=radio]), textarea, select");
    if (event.key === "Escape") {
      for (const menu of all("details[data-menu][open]")) { menu.open = false; find("summary", menu).focus(); }
      if (isTyping) event.target.blur();
      return;
    }
    if (isTyping || find("dialog[open]")) return;
    if (Date.now() - leader < 1500) {
      leader = 0;
      const link = find(`[data-go="${CSS.escape(event.key)}"], [data-tab="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    const keys = {
      j: () => step(1),
      k: () => step(-1),
      g: () => { leader = Date.now(); },
      "/": () => { const field = find("#q"); if (field) { field.focus(); field.select(); } else location.href = "/"; },
      "?": () => find("#keys")?.showModal(),
      m: () => find("#text")?.focus(),
      u: () => {
        const folds = all("details.fold, details.event");
        const isOpen = folds.some((one) => one.open);
        for (const one of folds) one.open = !isOpen;
        tell(isOpen ? "everything is folded" : "everything is unfolded");
      },
    };
    if (Object.hasOwn(keys, event.key)) { event.preventDefault(); keys[event.key](); }
  });

  // -- a link to a folded place unfolds it
  const unfold = () => {
    const place = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (place?.matches("details")) place.open = true;
    if (place) place.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", unfold);
  if (location.hash) unfold();

  // -- two fields that show the same number
  document.addEventListener("input", (event) => {
    const range = event.target;
    if (range.dataset?.same) { const field = find(`#${range.dataset.same}`); if (field) field.value = range.value; }
    else if (range.type === "number" && find(`#${range.id}-range`)) find(`#${range.id}-range`).value = range.value || 0;
  }, true);

  // -- the graph of branches has the width that its sessions need
  for (const graph of all(".graph")) graph.parentElement.style.setProperty("--graph-width", `${graph.width.baseVal.value + 8}px`);

  // -- parts of a page that are fetched: what came is told in a sentence, and the focus stays.
  // A form with data-part shows its answer in that place, a link with data-get in the place of what
  // it stands in. Without this script both load a page.
  const asking = new WeakMap();
  let shown = location.pathname + location.search;
  const fetchPart = async (asker, url, place, put) => {
    asking.get(asker)?.abort(); // only the newest answer counts
    const control = new AbortController();
    asking.set(asker, control);
    const at = asker === document.activeElement ? stops().indexOf(asker) : -1;
    asker.classList.add("busy");
    place.setAttribute("aria-busy", "true");
    try {
      const response = await fetch(url, { headers: { "X-Part": "true" }, signal: control.signal });
      const text = await response.text();
      if (!response.ok) { tell(text.slice(0, 300)); return; }
      const page = new DOMParser().parseFromString(text, "text/html");
      const told = find("[data-tell]", page)?.textContent;
      put([...page.body.childNodes]);
      for (const one of all("[data-revealed]")) reveal.observe(one);
      if (asker.dataset.part) {
        const now = response.headers.get("X-Url") ?? url;
        if (now !== shown) history.pushState(null, "", now);
        shown = now;
      }
      if (at >= 0 && stops()[at]) focusOn(stops()[at]);
      if (told) tell(told);
    } catch (error) {
      if (error.name !== "AbortError") tell("That did not work.");
      if (control.signal.aborted) return;
    }
    asker.classList.remove("busy");
    place.setAttribute("aria-busy", "false");
  };
  const followLink = (link) => {
    const place = link.closest(link.dataset.replace);
    return fetchPart(link, link.dataset.get, place, (nodes) => place.replaceWith(...nodes));
  };
  const sendForm = (form) => {
    const place = find(form.dataset.part);
    const asked = new URLSearchParams(new FormData(form)).toString();
    const url = form.getAttribute("action") + (asked ? `?${asked}` : "");
    return fetchPart(form, url, place, (nodes) => place.replaceChildren(...nodes));
  };
  const reveal = new IntersectionObserver((seen) => {
    for (const one of seen) if (one.isIntersecting) { reveal.unobserve(one.target); followLink(one.target); }
  });
  for (const one of all("[data-revealed]")) reveal.observe(one);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-get]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    followLink(link);
  });
  let typed = 0;
  const soon = (form, wait) => { clearTimeout(typed); typed = setTimeout(() => sendForm(form), wait); };
  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (form?.dataset.part && event.target.matches(form.dataset.typed)) soon(form, 150);
  });
  document.addEventListener("change", (event) => {
    const form = event.target.form;
    if (form?.dataset.part && !event.target.matches(form.dataset.typed)) soon(form, 0);
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.dataset.part) return;
    event.preventDefault();
    soon(event.target, 0);
  });
  addEventListener("popstate", () => { if (location.pathname + location.search !== shown) location.reload(); });

  // -- following: a browser keeps few connections to one server, so only pages that are looked at follow
  const following = (url, heard, shown = () => {}) => {
    let source = null;
    const follow = () => {
      if (source) return;
      source = new EventSource(url());
      source.addEventListener("open", () => shown(true));
      source.addEventListener("error", () => shown(false));
      for (const [name, hear] of Object.entries(heard)) source.addEventListener(name, hear);
    };
    const rest = () => { source?.close(); source = null; shown(false); };
    document.addEventListener("visibilitychange", () => (document.hidden ? rest() : follow()));
    addEventListener("pagehide", rest);
    addEventListener("pageshow", () => { if (!document.hidden) follow(); });
    follow();
  };

  // -- following the inbox: what is being typed about a question stays while others come and go
  const inbox = find("[data-inbox]");
  if (inbox) {
    const url = inbox.dataset.inbox;
    const renew = async (event) => {
      if (JSON.parse(event.data).questions.join(" ") === inbox.dataset.ids) return;
      const response = await fetch(url);
      if (!response.ok) return;
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const now = find("[data-inbox]", page), open = find("[data-asked]", now), asked = find("[data-asked]", inbox);
      for (const one of [...asked.children]) if (!one.id || !find(`#${one.id}`, open)) one.remove();
      asked.append(...[...open.children].filter((one) => !one.id || !find(`#${one.id}`, asked)));
      for (const part of [".head", "[data-later]"]) find(part, inbox).replaceWith(find(part, now));
      find('[data-go="w"]')?.replaceWith(find('[data-go="w"]', page));
      inbox.dataset.ids = now.dataset.ids;
      tell(find(".head p", inbox).textContent);
    };
    following(() => `${url}/live`, { asks: renew });
  }

  // -- following a session
  const talk = find("[data-live]");
  if (talk) {
    const url = talk.dataset.live;
    const entries = find("#entries"), end = find("#open-end"), trouble = find("#trouble");
    let next = Number(talk.dataset.next), busy = false, again = false;
    const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 160;
    const toEnd = () => scrollTo({ top: document.documentElement.scrollHeight });

    const renew = async () => {
      if (busy) { again = true; return; }
      busy = true;
      try {
        do {
          again = false;
          const response = await fetch(`${url}/tail?from=${next}`, { headers: { "X-Part": "true" } });
          if (!response.ok) break;
          show(new DOMParser().parseFromString(await response.text(), "text/html"));
        } while (again);
      } catch { /* the stream comes back by itself, and then this does */ }
      busy = false;
    };
    const show = (page) => {
      const follows = isAtEnd(), before = end.textContent;
      const opened = new Set(all("details[open]", end).map((one) => one.id));
      const settled = find("[data-settled]", page), open = find("[data-open]", page);
      if ("behind" in open.dataset) { location.reload(); return; }
      for (const one of all("details", page)) if (opened.has(one.id)) one.open = true;
      if (settled.childElementCount) find("[data-nothing]")?.remove();
      const isNews = settled.childElementCount > 0 || open.textContent !== before;
      const said = all("article.assistant .words", settled).pop();
      if (said) tell(`Assistant: ${said.textContent.trim().slice(0, 400)}`);
      entries.append(...settled.children);
      end.replaceChildren(...open.children);
      next = Number(open.dataset.next);
      if (follows && isNews) toEnd();
    };

    const questions = find("#questions"), stop = find("#stop"), send = find("#send"), line = find("#live-line");
    const asked = async (ids) => {
      const wanted = ids.join(" ");
      if (questions.dataset.ids === wanted) return;
      questions.dataset.ids = wanted;
      const follows = isAtEnd();
      if (ids.length) {
        await fetchPart(questions, `${url}/questions`, questions, (nodes) => questions.replaceChildren(...nodes));
        tell("The agent waits for an answer.");
      } else questions.replaceChildren();
      if (follows) toEnd();
    };
    const failed = (text) => { trouble.textContent = text; trouble.hidden = !text; if (text) trouble.scrollIntoView({ block: "nearest" }); };
    stop.addEventListener("click", async () => failed(await post(stop.dataset.url, {})));

    const composer = find("#composer"), text = find("#text"), interrupt = find("#interrupt");
    const grow = () => { text.style.height = "auto"; text.style.height = `${text.scrollHeight + 2}px`; };
    text.addEventListener("input", grow);
    text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); composer.requestSubmit(send); }
      if (event.key === "Escape" && !interrupt.hidden && text.value.trim()) { event.preventDefault(); composer.requestSubmit(interrupt); }
    });
    composer.addEventListener("submit", async (event) => {
      event.preventDefault();
      const words = text.value;
      if (!words.trim()) return;
      text.value = "";
      grow();
      send.disabled = true;
      failed("");
      toEnd();
      const stops = event.submitter === interrupt;
      const wasRunning = talk.dataset.running === "true";
      const problem = await post(composer.action, stops ? { text: words, interrupt: "1" } : { text: words });
      if (!problem && wasRunning) tell(stops ? "The agent stops, and hears it." : "The agent hears it before its next step.");
      send.disabled = false;
      if (problem) { failed(problem); text.value = words; grow(); }
    });

    const goOn = find("#go-on");
    goOn.addEventListener("submit", async (event) => {
      event.preventDefault();
      const about = find("[data-about]", goOn), word = find("[data-word]", goOn);
      about.textContent = "Starting…"; // the first answer of a server has to load its model
      word.disabled = true;
      const problem = await post(goOn.action, {});
      word.disabled = false;
      failed(problem);
      goOn.hidden = !problem;
    });
    const goesOn = (how) => {
      const follows = isAtEnd();
      goOn.hidden = !how;
      if (!how) return;
      find("[data-about]", goOn).textContent = how.about;
      find("[data-word]", goOn).textContent = how.word;
      if (follows) toEnd();
    };

    const changed = (event) => {
      const now = JSON.parse(event.data);
      stop.hidden = interrupt.hidden = !now.running;
      if (talk.dataset.running === "true" && !now.running) tell("The answer is complete.");
      talk.dataset.running = now.running;
      asked(now.questions);
      if (now.trouble) failed(now.trouble);
      goesOn(now.goes_on);
      renew();
    };
    following(() => `${url}/live?after=${next}`, { news: renew, state: changed }, (on) => { line.hidden = !on; });
    if (!location.hash && scrollY === 0 && entries.scrollHeight > innerHeight) toEnd();
  }
})();
