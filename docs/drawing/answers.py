"""Trains a small model for each task and keeps its answers for the gallery of tasks.

    python docs/drawing/answers.py                  # some minutes
    python docs/drawing/answers.py --only aspect    # one task

Writes docs/pictures/gallery/answers.json, with an input and an answer for each task; `docs/drawing/gallery.py` draws
them. The models start from MiniLM and tiny-en. They learn from the bundled commands to an assistant or, where a task
needs other data, from the few dozen sentences below: enough to answer texts like them, and no more.
"""

import argparse
import json
import os
import random
from itertools import product
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras_bert

ANSWERS = Path(__file__).parents[1] / "pictures" / "gallery" / "answers.json"
MODEL = "all-MiniLM-L6-v2"

PEOPLE = "Ada", "Bob Smith", "Chen Wei", "Dana Roth", "Eva", "Musa Diallo"
PLACES = "Malmö", "Oslo", "New York", "Kyoto", "Lagos", "Berlin"
LIBRARIES = "the Town Library", "Kite Labs", "the Royal Theatre", "Red Barn", "the City Archive", "Weber Foods"
LANDMARKS = "the station", "the old mill", "a park", "the north gate", "the market"
COMPANIES = "Nordic Rail", "Kite Labs", "Red Barn", "Solaris", "Blue Ferry", "Weber Foods"
SENTENCES = (
    "{person} lives in {place} .",
    "{person} works for {company} in {place} .",
    "In {place} , {company} hired {person} .",
    "{company} opened an office in {place} .",
    "Yesterday {person} left {place} for good .",
)
SERVED = {
    "positive": ("great", "wonderful", "delicious", "friendly", "excellent"),
    "negative": ("awful", "slow", "terrible", "rude", "disappointing"),
}
ASPECTS = "pizza", "service", "soup", "waiter", "price", "view"
CAUSES = ("storm", "flood"), ("virus", "fever"), ("heat", "drought"), ("spark", "fire"), ("rain", "delay")
PARTS = ("lid", "jar"), ("wheel", "car"), ("page", "book"), ("handle", "door"), ("string", "guitar")
MAKERS = ("potter", "bowl"), ("baker", "bread"), ("author", "novel"), ("tailor", "coat"), ("bee", "honey")
RELATIONS = {
    "Cause-Effect(e1,e2)": (CAUSES, ("The {0} caused the {1}.", "The {0} led to a {1}.", "A {0} brought on the {1}.")),
    "Component-Whole(e1,e2)": (PARTS, ("The {0} of the {1} broke.", "The {1} has a {0}.", "A {0} is part of a {1}.")),
    "Product-Producer(e2,e1)": (MAKERS, ("The {0} made the {1}.", "The {1} by the {0} sold.", "A {0} makes {1}.")),
}
REPLIES = {
    "set_alarm": "your alarm is set for {time}",
    "set_timer": "the timer runs for {duration}",
    "get_weather": "here is the weather in {place}",
    "get_directions": "this is the way to {place}",
    "make_call": "calling {person}",
    "send_message": "your message to {person} is on its way",
    "add_to_list": "{item} is on your list",
    "translate_phrase": "this is {phrase} in {language}",
    "create_reminder": "i will remind you to {reminder}",
}


def classification():
    """A command and its three likeliest intents."""
    commands = keras_bert.load_assistant("train")
    labels = sorted({command.intent for command in commands})
    classifier = keras_bert.TextClassifier.from_pretrained("tiny-en", labels=labels)
    classifier.fit(*_texts_and_intents(commands), epochs=12, verbose=2)
    text = "wake me at seven"
    best = [{"name": label.name, "probability": label.probability} for label in classifier.predict(text)[:3]]
    return {"text": text, "answer": best}


def tagging():
    """A sentence with people, places and companies."""
    words, tags = [], []
    for number, (template, person) in enumerate(product(SENTENCES, PEOPLE)):
        values = {"person": person, "place": PLACES[number % 6], "company": COMPANIES[(number * 5 + 1) % 6]}
        sentence = list(_tagged(template, values))
        words.append([word for word, _ in sentence])
        tags.append([tag for _, tag in sentence])
    tagger = keras_bert.EntityTagger.from_pretrained(MODEL, labels=["person", "place", "company"])
    tagger.fit(words, tags, learning_rate=5e-4, epochs=12, verbose=2)
    text = "In Lisbon, Weber Foods hired Maria Lindgren, who used to live in Kyoto."
    return {"text": text, "answer": [_place(entity) for entity in tagger.predict(text)]}


def question_answering():
    """A text, a question, and the part of the text that answers it."""
    inputs, answers = [], []
    for number, person in enumerate(PEOPLE * 5):
        place, company, landmark = PLACES[number % 6], LIBRARIES[(number * 7 + number // 6) % 6], LANDMARKS[number % 5]
        context = f"{person} works for {company}. The office is in {place}, near {landmark}."
        for question, answer in (
            (f"Who does {person} work for?", company),
            ("Where is the office?", place),
            (f"Who works for {company}?", person),
            ("What is near the office?", landmark),
        ):
            inputs.append((question, context))
            answers.append(answer)
    answerer = keras_bert.QuestionAnswerer.from_pretrained(MODEL, sequence_length=64)
    answerer.fit(inputs, answers, learning_rate=3e-4, epochs=10, verbose=2)
    context = "Maria works for the Harbour Museum. The office is in Lisbon, near the old bridge."
    questions = ["Where is the office?", "What is near the office?"]
    found = [answerer.predict(question, context) for question in questions]
    spans = [{"text": one.text, "start": one.start, "end": one.end, "probability": one.probability} for one in found]
    return {"text": context, "questions": questions, "answer": spans}


def intent_slots():
    """A command, its intent and its slots."""
    commands = keras_bert.load_assistant("train")
    kinds = {
        "intents": sorted({command.intent for command in commands}),
        "slots": sorted({slot.name for command in commands for slot in command.slots}),
    }
    assistant = keras_bert.IntentSlots.from_pretrained(MODEL, **kinds)
    assistant.fit(commands, learning_rate=3e-4, epochs=7, verbose=2)
    text = "remind me to water the plants at half past six tomorrow"
    found = assistant.predict(text)
    slots = [_place(slot) for slot in found.slots]
    return {"text": text, "intent": found.intent, "probability": found.probability, "answer": slots}


def relation():
    """A sentence with two marked entities, and how they relate."""
    texts, labels = [], []
    for label, (pairs, templates) in RELATIONS.items():
        for (first, second), template in product(pairs, templates):
            marked = template.format(f"<e1>{first}</e1>", f"<e2>{second}</e2>")
            texts.append(marked)
            labels.append(label)
    relations = keras_bert.RelationClassifier.from_pretrained(MODEL, labels=list(RELATIONS))
    relations.fit(texts, labels, learning_rate=3e-4, epochs=10, verbose=2)
    text = "The <e1>earthquake</e1> caused the <e2>landslide</e2> last spring."
    best = relations.predict(text)[0]
    return {"text": text, "answer": {"name": best.name, "probability": best.probability}}


def aspect():
    """A sentence and what it says of two things."""
    sentences, labels, chance = [], [], random.Random(1)
    for _ in range(720):
        first, second = chance.sample(ASPECTS, 2)
        one, other = chance.choice(list(SERVED)), chance.choice(list(SERVED))
        link = chance.choice([", but the", " and the", ", while the"])
        text = f"The {first} was {chance.choice(SERVED[one])}{link} {second} was {chance.choice(SERVED[other])}."
        sentences += [(text, first), (text, second)]
        labels += [one, other]
    aspects = keras_bert.AspectClassifier.from_pretrained("tiny-en", sequence_length=48)
    aspects.fit(sentences, labels, learning_rate=1e-3, epochs=24, dropout=0.0, patience=None, verbose=2)
    text = "The pizza was delicious, but the service was slow."
    found = aspects.predict(text, aspects=["pizza", "service"])
    answer = [{"aspect": one.aspect, "label": one.label, "probability": one.probability} for one in found]
    return {"text": text, "answer": answer}


def similarity():
    """Cosines between four sentences; nothing is trained."""
    texts = ["My screen stays black.", "The display is dark.", "Where is my parcel?", "The delivery is late."]
    embedder = keras_bert.SentenceEmbedder.from_pretrained(MODEL)
    return {"texts": texts, "answer": embedder.similarity(texts, texts).tolist()}


def multiple_choice():
    """A command and possible replies."""
    pairs = _commands_and_replies()
    replies = [reply for _, reply in pairs]
    questions, labels = [], []
    for number, (text, reply) in enumerate(pairs):
        wrong = [replies[(number + step) % len(replies)] for step in (101, 211)]
        choices = [*wrong[: number % 3], reply, *wrong[number % 3 :]]
        questions.append((text, choices))
        labels.append(number % 3)
    chooser = keras_bert.MultipleChoice.from_pretrained("tiny-en", sequence_length=48)
    chooser.fit(questions, labels, learning_rate=1e-3, epochs=15, verbose=2)
    text = "could you ring my sister please"
    choices = ["the timer runs for ten minutes", "calling your sister", "milk is on your list"]
    found = chooser.predict(text, choices)
    return {"text": text, "answer": [{"text": one.text, "probability": one.probability} for one in found]}


def zero_shot():
    """A text and labels that no model was trained on."""
    classifier = keras_bert.ZeroShotClassifier.from_pretrained(MODEL)
    text = "The striker scored twice in the second half."
    found = classifier.predict(text, labels=["sport", "politics", "music"])
    return {"text": text, "answer": [{"name": one.name, "probability": one.probability} for one in found]}


def seq2seq():
    """A command and the reply that is written to it."""
    sources, targets = zip(*_commands_and_replies(), strict=True)
    writer = keras_bert.Seq2Seq.from_pretrained("tiny-en", sequence_length=48)
    writer.fit(list(sources), list(targets), learning_rate=2e-3, epochs=60, verbose=2)
    texts = ["wake me up at six please", "call my sister", "add olive oil to the shopping list"]
    return {"texts": texts, "answer": [writer.generate(text) for text in texts]}


KINDS = "time", "duration", "place", "person", "item", "phrase", "language", "reminder"
TASKS = (
    classification,
    tagging,
    question_answering,
    intent_slots,
    relation,
    aspect,
    similarity,
    multiple_choice,
    zero_shot,
    seq2seq,
)


def _texts_and_intents(commands):
    return [command.text for command in commands], [command.intent for command in commands]


def _tagged(template, values):
    """The words of a sentence with their tags."""
    for part in template.split():
        kind = part.strip("{}")
        if kind not in values:
            yield part, "O"
            continue
        for number, word in enumerate(values[kind].split()):
            yield word, f"{'I' if number else 'B'}-{kind}"


def _commands_and_replies():
    """Commands with a reply that repeats what matters."""
    pairs = []
    for command in keras_bert.load_assistant("train"):
        values = {slot.name: slot.text for slot in command.slots}
        template = REPLIES.get(command.intent)
        if template and all("{" + name + "}" not in template or name in values for name in KINDS):
            pairs.append((command.text, template.format(**values).lower()))
    return pairs


def _place(entity):
    return {"label": entity.label, "start": entity.start, "end": entity.end}


def _rounded(value):
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return round(value, 3) if isinstance(value, float) else value


def main():
    """Train and ask every task, or one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", choices=[task.__name__ for task in TASKS], help="this task alone")
    arguments = parser.parse_args()
    ANSWERS.parent.mkdir(parents=True, exist_ok=True)
    for task in TASKS:
        if arguments.only in (None, task.__name__):
            answer = _rounded(task())
            print(json.dumps(answer, ensure_ascii=False))
            known = json.loads(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.exists() else {}
            known[task.__name__] = answer
            ordered = {one.__name__: known[one.__name__] for one in TASKS if one.__name__ in known}
            ANSWERS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
