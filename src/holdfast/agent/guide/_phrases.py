"""Fixed phrases of the guide: about the commands, in other languages, and for small talk. Words and nothing else."""

from __future__ import annotations

# What is told under a key: the words in which it is said again, how it is asked for, and how it is told.
SAID_AGAIN: dict[str, tuple[str, str, str]] = {
    "name": ("your name is {}", "What is my name?", "My name is Alice"),
    "home": ("you live in {}", "Where do I live?", "I live in Porto"),
    "origin": ("you are from {}", "Where am I from?", "I am from Porto"),
    "goal": ("you want to go to {}", "Where do I want to go?", "I want to go to Kyoto"),
    "place": ("you are in {}", "Where am I?", "I am in Porto"),
}

WHO = "I am the Holdfast guide, not a language model: I know a few things by heart, and I use real tools."

TOPICS: dict[str, tuple[str, str, str]] = {
    # Beginnings of words in a question, a slash command, and the explanation.
    "fork": (
        "fork",
        "`holdfast fork ID`",
        (
            "A fork is a copy of a session up to any event. From there each goes its own way, and what they share is"
            " stored once."
        ),
    ),
    "back": (
        "back",
        "`holdfast fork ID --at SEQ`",
        "To go back, fork from an earlier event: the log itself is never cut.",
    ),
    "export": (
        "export",
        "`holdfast export ID --format html`",
        "A session can be written as Markdown, HTML, JSON or a bundle that another machine can import.",
    ),
    "model": (
        "model",
        "`holdfast chat --model anthropic:claude-sonnet-5-5`",
        (
            "Any model can take over this session, because the conversation belongs to you and not to a model. Set"
            " ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or start Ollama or LM Studio, and the chat finds"
            " it by itself."
        ),
    ),
    "waiting": (
        "waiting",
        "`holdfast waiting`",
        "A tool that needs a person can wait for days: the session is kept, and goes on as soon as somebody answers.",
    ),
    "sessions": (
        "list",
        "`holdfast list`",
        "Every session has an id, a title and a log; `holdfast show ID` prints it.",
    ),
    "memory": (
        "memory",
        "`holdfast show ID`",
        "What I am told to remember is in the memory of the session, which is part of its log.",
    ),
    "delete": (
        "delete",
        "`holdfast delete ID`",
        "A deleted session goes into the trash, and `holdfast undelete ID` brings it back.",
    ),
}

LANGUAGES = (
    (
        r"\b(?:hallo|guten|ich|nicht|bitte|und|wie)\b",
        "Ich bin kein Sprachmodell und antworte auf Englisch. Was du schreibst, bleibt Wort für Wort erhalten.",
    ),
    (
        r"\b(?:bonjour|salut|je|est|vous|merci|pas)\b",
        "Je ne suis pas un modèle de langage et je réponds en anglais. Ce que vous écrivez est gardé mot pour mot.",
    ),
    (
        r"\b(?:hola|buenos|qué|cómo|gracias|estás|quiero)\b|¿|¡",
        "No soy un modelo de lenguaje y respondo en inglés. Lo que escribes se guarda palabra por palabra.",
    ),
    (
        r"\b(?:olá|bom dia|obrigad[oa]|você|não|como está)\b",
        "Não sou um modelo de linguagem e respondo em inglês. O que escreve fica guardado palavra por palavra.",
    ),
    (
        r"\b(?:ciao|buongiorno|grazie|sono|perché)\b",
        "Non sono un modello linguistico e rispondo in inglese. Ciò che scrivi resta parola per parola.",
    ),
    (r"[\u3040-\u30ff]", "私は言語モデルではなく、英語で答えます。書かれたことはそのまま保存されます。"),
    (r"[\u4e00-\u9fff]", "我不是语言模型，用英语回答。您写的每个字都会原样保存。"),
    (r"[\u0400-\u04ff]", "Я не языковая модель и отвечаю по-английски. Всё, что вы пишете, сохраняется слово в слово."),
    (r"[\u0600-\u06ff]", "أنا لست نموذجًا لغويًا، وأجيب بالإنجليزية. كل ما تكتبه يُحفظ كلمة بكلمة."),
    (r"[\u0900-\u097f]", "मैं कोई भाषा मॉडल नहीं हूँ और अंग्रेज़ी में उत्तर देता हूँ। आप जो लिखते हैं, वह शब्दशः सुरक्षित रहता है।"),
    (r"[\uac00-\ud7af]", "저는 언어 모델이 아니며 영어로 답합니다. 쓰신 내용은 그대로 보존됩니다."),
)

# Common phrases and the answers to them; a suggestion of what to try next follows.
SMALL_TALK: tuple[tuple[str, str, str], ...] = (
    (
        "durable",
        r"\bwhat is (?:a )?(?:durable )?(?:session|holdfast)|\bdurab|\bhow (?:is|are) .*\b(?:kept|stored|saved)",
        (
            "A session is a log of events that only ever grows. Each event is on disk before the next thing happens,"
            " and what you see here is read from it. So a crash loses nothing that you have seen, and any program can"
            " take the session up again."
        ),
    ),
    (
        "who",
        (
            r"\bwho are you|what are you(?! written| made)|your name|^\s*are you\b|"
            r"\b(?:what|which) (?:ai |language )?model (?:are|is)\b|"
            r"are you (?:an? |the )?(?:ai|bot|llm|human|robot|real|model|language|chat ?gpt|claude)"
        ),
        (
            f"{WHO} I answer when no model is set up. To talk to one, set ANTHROPIC_API_KEY or OPENAI_API_KEY, start"
            " Ollama or LM Studio, or use `--model`: it takes over in this very session."
        ),
    ),
    (
        "maker",
        (
            r"\bwho (?:made|built|created|wrote|develop\w*) (?:you|this|it)\b|"
            r"\bwhat (?:language )?are you (?:written|made)|\byour source\b|open.source"
        ),
        "I am part of Holdfast: a small program in Python, free software under the Apache License 2.0.",
    ),
    (
        "price",
        r"\bis (?:this|it) free\b|\b(?:this|it|you|holdfast) costs?\b|\bprices?\b|\bpay for\b",
        (
            "Talking to me costs nothing: Holdfast is free software, and I use no model. With a model from a provider,"
            " `/cost` shows what was spent."
        ),
    ),
    ("check", r"^\s*(?:this is a )?(?:test(?:ing)?|ping)\s*[.!]?\s*$", "It works: your message is on record."),
    (
        "hands",
        (
            r"\b(?:edit|change|modify|write|create|delete|fix|run|execute|install)\b.*"
            r"\b(?:files?|folders?|commands?|scripts?|programs?|tests|bash|shell)\b|^\s*run\b|\bsee my screen\b"
        ),
        (
            "I only read: files in the folder where this chat was started and below, and I ask first. A model can have"
            " more tools, such as those of MCP servers."
        ),
    ),
    (
        "what",
        r"^\s*(?:so )?what(?:'?s| is) (?:this|that|it|going on)(?: for| about)?\s*\??\s*$|^\s*what is happening",
        (
            "This is a chat whose session stays: every word is on disk before you see it. I am its guide, not"
            " a language model, and I show you what a session can do."
        ),
    ),
    (
        "beyond",
        (
            r"\b(?:write|draw|compose|translate|summari[sz]e|explain|code|program|poem|joke|story|weather|news|recipe|"
            r"what time|the time)\b|^\s*(?:what(?:'?s| is) )?[\d(][\d\s+*/().^-]+=?\s*\??\s*$"
        ),
        (
            "That takes a language model, and I am not one. Your words are in the log: as soon as you set a key or"
            " start Ollama, a model reads them and takes over in this very session. `another model` tells you how."
        ),
    ),
    (
        "private",
        (
            r"\b(?:where|how)\b.*\b(?:data|session|log|words|this|it)\b.*\b(?:stored|kept|saved|live)\b|"
            r"\bwhere (?:is|are) (?:(?:my|the|all|our) )+(?:data|sessions?|log|words|messages|store)\b|"
            r"\b(?:private|privacy|upload|cloud|telemetry)\b|\bsent (?:any|some)where|\bwho can (?:see|read)"
        ),
        (
            "Everything is in the store that this chat named when it started, and nowhere else; `holdfast doctor`"
            " names it, too. Unless you chose another, that is a folder on this machine, with a line of plain text"
            " for each event. I do not use the network."
        ),
    ),
    (
        "forget",
        r"^\s*(?:please )?(?:forget|erase|unlearn)\b",
        (
            "I never change the log, so that you can rely on it. But you can: `holdfast redact ID` removes words"
            " for good, and `/delete` moves this session to the trash."
        ),
    ),
    (
        "limits",
        r"\b(?:stupid|dumb|useless|boring|idiot|suck|sucks|fuck|shit|annoying|bad bot|i hate (?:you|this|it))\b",
        (
            "Fair enough: I am a small program, not a language model. What I can show you is a session that survives a"
            " crash."
        ),
    ),
    ("feeling", r"\bhow (?:are|r) (?:you|u)\b|\bhow's it going", "Fine, thank you."),
    ("nod", r"^\s*(?:yes|yeah|yep|sure|y|ok|okay|k|no|nope|nah|hm+|right|👍|👌)\s*[.!]?\s*$", "Then let us go on."),
    ("thanks", r"^\s*(?:thanks|thank you|thx|great|nice|cool|good|wow)\b", "You are welcome."),
)
