"""The preset `briefs`: chunks of turns, without a model and with one that answers well."""

from __future__ import annotations

import json
import logging

import pytest

from recollect import Memory, count_tokens, count_tokens_for_messages
from recollect.settings import Settings
from recollect.testing import FakeModel, ModelCall
from support.prompts import without_memory
from support.summaries import (
    SYSTEM,
    Open,
    SlowModel,
    context_part,
    good_reply,
    long_turns,
    new_sentences,
    nth_sentence,
    prompt_layout,
    reply,
    sound_brief,
    tail_seqs,
    user_turns,
)


def past_the_border(open_memory: Open, model: FakeModel | None) -> Memory:
    """19 turns of 22 are folded."""
    memory = open_memory(settings="D", model=model)
    memory.add_many("trip", long_turns(22))
    memory.drain()
    return memory


def test_d_8_1_tokens_are_counted_by_one_counter(open_memory: Open, model: FakeModel | None) -> None:
    """D 8.1: the builder, the trigger and the caller count alike."""
    memory = past_the_border(open_memory, model)
    brief = sound_brief(memory)
    context = memory.context("trip", "hello", system_prompt=SYSTEM)
    assert context.tokens == count_tokens_for_messages(context.messages)
    assert context.tokens == sum(one["tokens"] for one in context.explain["parts"])
    assert count_tokens(brief.narrative) <= 500
    assert brief.tokens >= count_tokens(brief.narrative)


def test_d_8_1_the_tail_is_the_last_k_turns(open_memory: Open, model: FakeModel | None) -> None:
    """D 8.1 and 5.1: what is folded leaves exactly K turns, and they stand word for word in the prompt."""
    memory = past_the_border(open_memory, model)
    assert sound_brief(memory).through_seq == 38
    context = memory.context("trip", "hello")
    assert tail_seqs(context) == [39, 40, 41, 42, 43, 44]
    assert without_memory(context.messages)[:-1] == [m.content for m in memory.history("trip")[-6:]]
    assert "BACKGROUND – PRIOR CONVERSATION SUMMARY (use only if relevant):" in context.text


def test_d_8_1_the_oldest_turns_of_the_tail_give_way_first(
    open_memory: Open, model: FakeModel | None, caplog: pytest.LogCaptureFixture
) -> None:
    """D 5.1 step 5 and 8.1, 8.3: near the budget the tail loses its oldest turns, down to one, and a log says so."""
    caplog.set_level(logging.INFO, "recollect")
    memory = past_the_border(open_memory, model)
    sizes = []
    for budget in (4000, 3000, 2500, 2100, 1500, 800, 300):
        context = memory.context("trip", "hello", budget=budget)
        assert context.tokens <= budget
        sizes.append(len(tail_seqs(context)))
        if tail_seqs(context):
            assert tail_seqs(context)[-1] == 44
    assert sizes[0] == 6
    assert sizes == sorted(sizes, reverse=True)
    assert any("of the newest turns had no room" in record.getMessage() for record in caplog.records)


def test_d_8_1_a_summary_too_long_is_made_anew_and_not_cut(
    open_memory: Open, model: FakeModel | None, caplog: pytest.LogCaptureFixture
) -> None:
    """D 5.1 step 5, corrected by spec §5, and 8.3: whole statements, and a log line."""
    memory = open_memory(settings="D", model=model)
    memory.add_many("trip", long_turns(30))
    memory.drain()
    caplog.set_level(logging.INFO, "recollect")
    memory.change_settings(memory_brief_token_budget=250)
    statements = [one.text for one in sound_brief(memory).statements]
    topic = memory.topics("trip")[0].summary or ""
    context = memory.context("trip", "hello")
    shown = [one["text"] for one in context_part(context, "summary")["items"]]
    assert shown
    assert len(shown) < len(statements)
    assert all(one in statements or one in topic for one in shown)
    assert context_part(context, "summary")["tokens"] <= 250
    assert any("summary shortened by" in record.getMessage() for record in caplog.records)


def test_d_8_1_turns_of_several_models_are_treated_alike(open_memory: Open, model: FakeModel | None) -> None:
    """D 6, 8.1 and 8.2: switching between models in mid-chat changes nothing."""
    briefs = []
    for name, variants in (("plain", [None]), ("mixed", ["arco", "arco-pro", "deep-dive"])):
        memory = open_memory(settings="D", model=model)
        for n, one in enumerate(long_turns(22)):
            variant = variants[n % len(variants)] if one["role"] == "assistant" else None
            memory.add(name, model_variant=variant, **one)
        memory.drain()
        briefs.append(sound_brief(memory, name))
        assert memory.context(name, "hello").tokens <= 3000
    assert briefs[0].narrative == briefs[1].narrative
    assert (briefs[0].through_seq, briefs[0].ledger) == (briefs[1].through_seq, briefs[1].ledger)


def test_d_8_1_it_folds_only_above_the_threshold_and_with_more_than_k_turns(
    open_memory: Open, model: FakeModel | None
) -> None:
    """D 5.2 and 8.1: neither many small turns nor few large ones."""
    memory = open_memory(settings="D", model=model)
    memory.add_many("small", long_turns(18))  # about 5600 tokens
    huge = [{"role": "user", "content": " ".join(map(nth_sentence, range(100 * n, 100 * n + 100)))} for n in range(3)]
    memory.add_many("few", huge)  # more than 6000, in three turns
    memory.drain()
    assert (memory.brief("small"), memory.brief("few")) == (None, None)
    memory.add_many("few", user_turns("And a fourth."))
    memory.drain()
    assert sound_brief(memory, "few").through_seq == 1


def test_d_8_1_the_cursor_advances_to_the_last_folded_message(open_memory: Open, model: FakeModel | None) -> None:
    """D 5.2 step 5 and 8.1: last_summarized_message_id moves on, and what is behind it is not read again."""
    memory = open_memory(settings="D", model=model)
    cursors = []
    for first, turns in ((0, 21), (21, 18), (39, 18)):
        memory.add_many("trip", long_turns(turns, first=first))
        memory.drain()
        cursors.append(sound_brief(memory).through_seq)
    assert cursors == [36, 72, 108]
    history = memory.history("trip")
    assert history[cursors[-1] - 1].role == "assistant"
    if model is not None:
        read = [new_sentences(prompt_layout(call)) for call in model.calls]
        assert len(read) >= 3
        assert not set(read[0]) & set(read[-1])
        assert "=== EXISTING_SUMMARY ===\nNONE\n" in prompt_layout(model.calls[0])
        assert "NONE" not in prompt_layout(model.calls[-1])


def test_d_5_2_much_that_comes_at_once_is_folded_down_to_the_last_k_turns(
    open_memory: Open, model: FakeModel | None
) -> None:
    """D 5.2 step 3 and spec §4: all but the last K, also when it takes several steps."""
    memory = open_memory(settings="D", model=model)
    memory.add_many("trip", long_turns(25))
    memory.drain()
    assert sound_brief(memory).through_seq == 44


def test_d_8_2_a_short_chat_is_a_sliding_window(open_memory: Open, model: FakeModel | None) -> None:
    """D 8.2: the summary stays empty."""
    memory = open_memory(settings="D", model=model)
    for n in range(8):
        memory.add_many("trip", long_turns(1, first=n, count=1))
        memory.drain()
        context = memory.context("trip", "hello")
        assert memory.brief("trip") is None
        assert all(m.content in context.text for m in memory.history("trip"))
    assert model is None or not model.calls


def test_d_8_2_older_facts_are_in_the_summary_after_chunk_borders(open_memory: Open, model: FakeModel | None) -> None:
    """D 8.2: long chats keep their last K turns word for word, and their oldest facts in the brief."""
    memory = open_memory(settings="D", model=model)
    memory.add_many("trip", user_turns("My piano teacher is called Ingrid and I play the cello too."))
    for first in (1, 23, 45):
        memory.add_many("trip", long_turns(22, first=first))
        memory.drain()
        context = memory.context("trip", "Who teaches me the piano?")
        last = [m.content for m in memory.history("trip")[-6:]]
        assert without_memory(context.messages)[:-1] == last
        assert "Ingrid" in context.text
        assert "Ingrid" in json.dumps(sound_brief(memory).ledger) + sound_brief(memory).narrative


def test_d_8_3_a_run_is_logged_with_its_numbers_and_without_its_text(
    open_memory: Open, model: FakeModel | None, caplog: pytest.LogCaptureFixture
) -> None:
    """D 8.3, 9.4: tokens before and after, turns, ms, model."""
    caplog.set_level(logging.INFO, "recollect")
    memory = past_the_border(open_memory, model)
    (line,) = [one for record in caplog.records if (one := record.getMessage()).startswith("brief: ")]
    found = dict(pair.split("=", 1) for pair in line.removeprefix("brief: ").split())
    brief = sound_brief(memory)
    assert found["turns"] == "19"
    assert found["messages"] == "38"
    assert found["trigger"] == "chunk"
    assert found["model"] == brief.model_used
    assert int(found["tokens_after"]) == brief.tokens
    assert int(found["tokens_before"]) > 5000
    assert int(found["ms"]) >= 0
    assert not any("harbour" in record.getMessage() for record in caplog.records)


def test_d_9_folding_goes_on_when_the_client_has_gone(open_memory: Open) -> None:
    """D 9.1: the worker of another process finishes what a closed one left."""
    model = SlowModel()
    gone = open_memory(settings="D", model=model, worker=True)
    gone.add_many("trip", long_turns(22))
    assert model.asked.wait(300)
    gone.close()
    memory = open_memory(settings="D", model=FakeModel(good_reply), worker=True)
    assert memory.drain(timeout=30).complete
    assert sound_brief(memory).through_seq == 38


def test_d_5_2_the_input_has_the_documents_layout_to_the_letter(open_memory: Open) -> None:
    """D 5.2 step 4."""

    def answer(call: ModelCall) -> str:
        return reply(" ".join(new_sentences(prompt_layout(call))))

    model = FakeModel(answer)
    memory = open_memory(settings=Settings(memory_k_raw_turns=1), model=model)
    memory.add_many("trip", user_turns("I like tea.", "I like milk in it.", "Good night."))
    memory.compress("trip", force=True)
    memory.add_many("trip", user_turns("I like cake.", "Bye.", first=20))
    memory.compress("trip", force=True)
    assert prompt_layout(model.calls[0]) == (
        "=== EXISTING_SUMMARY ===\nNONE\n=== END_EXISTING_SUMMARY ===\n\n=== NEW_TURNS ===\n"
        "Turn 1:\nUser: I like tea.\nAssistant: Noted.\n\nTurn 2:\nUser: I like milk in it.\nAssistant: Noted.\n"
        "=== END_NEW_TURNS ==="
    )
    old = memory.brief("trip", version=1)
    assert old is not None
    assert prompt_layout(model.calls[1]) == (
        f"=== EXISTING_SUMMARY ===\n{old.narrative}\n=== END_EXISTING_SUMMARY ===\n\n=== NEW_TURNS ===\n"
        "Turn 1:\nUser: Good night.\nAssistant: Noted.\n\nTurn 2:\nUser: I like cake.\nAssistant: Noted.\n"
        "=== END_NEW_TURNS ==="
    )
