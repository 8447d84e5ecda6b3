"""What the tools say of themselves to the agents that read them. English: agents answer people in their own language."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from gateway.dilem import operations

INSTRUCTIONS: Final = """\
Dilem helps a person to decide: it asks what it must know, then recommends one option and says why.

1. Call start_session once and keep the token: it is private. Store it and reuse it, never show it, never put it \
anywhere but in the argument session of these tools.
2. Choose a case_id for every dilemma and call decide with the person's own words.
3. A clarification without purpose, or with purpose decision_scope, is a question for the person. Relay it with its \
choices, wait for the real answer, append question and answer to refinements, add 1 to clarification_count, and call \
decide again with the same case_id and text. Never invent an answer and never answer in the person's place.
4. A clarification with purpose scope_notice or insufficient_evidence is a notice. Show it. Don't answer it, and don't \
call again until the person brings something new.
5. A result is the recommendation. Its probabilities are weights of preference, not chances of success.
6. Never repeat a call by yourself after an error, a timeout or a lost connection: it may have been carried out. Tell \
the person. In an error, retryable says whether they may want another attempt.
7. Votes and reports come from the person alone: send what they said, and only when they said it.
"""


class Words(Struct, frozen=True):
    """A tool's own words."""

    title: str
    description: str


_SESSION: Final = "session is the private token of start_session: store and reuse it, never show it."

WORDS: Final[dict[str, Words]] = {
    operations.START_SESSION.name: Words(
        "Start or renew a session",
        "Gives the token that every other tool needs, good for 90 days. The token is private: store it and reuse it in "
        "later conversations, never show it to anyone. Without arguments a new identity begins, with credits of its own; "
        "with a token the same identity and the same token live 90 days from now. A token that is not good is refused, "
        "never replaced: then tell the person before starting a new session.",
    ),
    operations.GET_USAGE.name: Words(
        "See credits and the state of a case",
        "Tells the day's credits and when they renew, whether the service's budget still allows computations, and with "
        "case_id whether that case was admitted and completed. Changes nothing and gives no lost answer back. "
        + _SESSION,
    ),
    operations.DECIDE.name: Words(
        "Decide: ask a question or recommend",
        "Takes one turn of a dilemma and gives a clarification, a result or an error; it may take up to 110 seconds. "
        "text is the choice in the person's own words, the same at every turn. case_id is yours to choose (letters, "
        "digits, _ and -, up to 80), one for each dilemma, the same until its result. A clarification is a question to "
        "relay to the person with its choices: wait for the real answer, never invent one, then call again with question "
        "and answer appended to refinements (oldest first) and clarification_count one higher. With purpose scope_notice "
        "or insufficient_evidence it is a notice: show it, don't answer it, don't call again without something new from "
        "the person. force_decision only if the person wants a recommendation without more questions. language is that of "
        "the interface; answers follow the person's words. A result gives 2 to 8 options with weights of preference (not "
        "chances of success), selected names the recommended one, result_id serves for a vote. The first turn of a case "
        "takes one credit; a completed case takes no more turns. Never repeat a call by yourself, also not after a timeout "
        "or an error: it is computed and paid again. " + _SESSION,
    ),
    operations.EXPORT_RESULT_CARD.name: Words(
        "Draw a result as an image",
        "Draws a result of decide as a PNG of 1080 by 1350 pixels for the person to keep or share. result is the object "
        "that decide gave, whole; language is that of the fixed labels, theme is light or dark. Nothing is kept or "
        "published, and it takes no credit. " + _SESSION,
    ),
    operations.GET_RESULT_FEEDBACK.name: Words(
        "Read the vote on a result",
        "Tells the vote recorded on one of this session's results; helpful is null if there is none. Results are known "
        "for 30 days. " + _SESSION,
    ),
    operations.SET_RESULT_FEEDBACK.name: Words(
        "Record the person's vote on a result",
        "Records whether the person found a result helpful, in place of an earlier vote. Only what the person expressly "
        "said: never guess their satisfaction. reason goes with helpful false alone. " + _SESSION,
    ),
    operations.SEND_USER_FEEDBACK.name: Words(
        "Send a message to those who run Dilem",
        "Sends a message of the person, or a report of a response, to those who run the service. Only with the person's "
        "express consent to this text. request_id is 32 lower-case hexadecimal digits of your choice, new for every "
        "message: keep it with its content, the same pair is stored once. kind response goes with response, the exact "
        "answer it is about (kind clarification or recommendation, its text, a reference such as the case_id); kind "
        "general goes without. email only if the person wants an answer. Never sent again by yourself after a failure "
        "that leaves it open whether it arrived. " + _SESSION,
    ),
}
