"""One agent's way through a run: meeting the other agents, sampling with them, and recovering from failures.

All agents go through *epochs*. Each begins with a meeting, at which every agent's card says "ready", the links to its
neighbours are up, and all run the same thing. They go back to the last iteration that all have saved, as their cards
say, and run from there, chunk by chunk.

Whatever goes wrong ends the epoch for all: an agent that was killed and comes back asks for the next one, and so does
one that finds a link restored, or its neighbour at another step. Nothing is lost by that but the chunk in flight, and
since every number in a run follows from its seed, it is drawn again to the same bits.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._compat import dispatch_synchronously
from .._refused import Refused
from ..engine import Chunk
from ..neighbors import Interrupted, KeyPair, Masks, OutOfStep
from ..peers import (
    ENDED,
    FEWEST_MASKED,
    STARTABLE,
    Board,
    Credentials,
    Identity,
    Links,
    Mailbox,
    Meter,
    Place,
    Verifier,
    check_consensus,
    check_free,
    check_mask,
    common_base,
    digest_of,
    given_up_by_most,
    is_here,
    is_ready,
    next_epoch,
    phase_before,
    status_of,
)
from ..results import Run
from ..store import Progress, differences
from .driver import MOST_REDONE, Stopped, draw, not_alike, result
from .request import Request
from .segment import Meeting, Segment, Terms, given_up, is_connected, is_finished, segment_folder

if TYPE_CHECKING:
    from ..peers import Card

LINGER = 1.5  # seconds in which the last card reaches the neighbours
LONGEST_LINGER = 5.0  # seconds in which a neighbour that has yet to learn that all is done comes, and learns it
COLUMNS = "labels.columns."  # in a run's record
LOOK = 0.5  # seconds between two looks at the board

log = logging.getLogger("consilience.peers")


def dispatch_as_peers_must() -> None:
    """Make calls of compiled code return when it is done, and refuse a process in which it is too late for that."""
    if not dispatch_synchronously():
        raise Refused(
            "this process",
            "jax has computed something before the run, and would let compiled code wait for itself",
            "Make cs.Peer(...) before anything is computed, or start the agent by `consilience peer`.",
        )


class Excluded(Exception):  # noqa: N818
    """Raised when the other agents went on without this one."""


class Member:
    """One agent of a run, in this process.

    Args:
      request: what it asks for, with the folder where its draws go; a run that is there is resumed.
      show: called about once a second with the status of the run.
    """

    def __init__(
        self,
        place: Place,
        credentials: Credentials,
        terms: Terms,
        request: Request,
        show: Callable[[Mapping[str, Any]], None],
    ) -> None:
        _check_request(request, terms)
        assert request.out is not None
        self.place, self.terms, self.request, self.folder, self._show = place, terms, request, request.out, show
        self._alive: dict[str, bool] = dict.fromkeys(place.neighbors, False)
        self._has_met = False
        self._floor = 1  # the first epoch that may come next
        self._attempt = 0
        self._running: tuple[int, Segment] | None = None  # the epoch, while it lasts
        self._segment: Segment | None = None
        self._key: tuple[int, KeyPair] | None = None
        self._said: set[str] = set()
        # Links and the pulse have threads of their own. Whoever decides by the running epoch or by this agent's card,
        # and then ends the one or changes the other, has this; never while anything is compiled or waited for.
        self._deciding = threading.RLock()
        self.meter = Meter(request.length.iterations)
        key = credentials.key.read_bytes()
        self._secret = own_secret(key, place.run_id)
        identity = Identity(key, credentials.certificate.read_bytes())
        if identity.name != place.name:
            raise Refused("certificate", f"it is {identity.name}'s, and this is agent {place.name}")
        self._links = Links(place, credentials, self._arrive, self._see, self._answer, pulled=("round",))
        self.mailbox = Mailbox.over(self._links)
        verifier = Verifier(credentials.authority.read_bytes())
        show_card = partial(self._links.send, "board")
        self.board = Board(identity, verifier, place.names, [*place.neighbors], show_card, self._look, self._report)

    # --- from start to end -------------------------------------------------------------------------------

    def run(self) -> Run:
        """Take part until the run is complete, and return the run as this agent has it."""
        dispatch_as_peers_must()
        check_free(self.place.listen)
        without = given_up(self.folder, self.place.run_id)
        was_finished = is_finished(self._folder_of(without), self.request.length)
        segment = self._enter(without)  # which refuses another run than the one that is there
        if was_finished:
            with segment.job.ending():
                self._say_complete()
            return result(segment.job)
        self.board.update(without=without)
        status = "interrupted"
        try:
            self._connect()
            while True:
                found = self._meet()
                if found is None:
                    break
                segment, meeting = found
                try:
                    self._run_epoch(segment, meeting)
                    self._wait_for_the_others(segment, meeting)
                    break
                except Interrupted as reason:
                    self._interrupted(meeting, reason)
            status = "complete"
            self.board.update(phase="complete")
        except Stopped:
            self.board.update(phase="stopped")
            raise Stopped(self.board.own.stop or "another agent asked for it") from None
        except Exception as error:
            if not isinstance(error, Excluded):
                self.board.update(phase="failed", stop=self.board.own.stop or self._blame(error))
            raise
        finally:
            assert self._segment is not None
            self._segment.job.sink.finish(status)
            self._disconnect()
        return result(self._segment.job)

    def _connect(self) -> None:
        self._links.open()
        self.board.open()

    def _disconnect(self) -> None:
        if self._links.is_open:
            time.sleep(LINGER)
            self.board.close()
            self._links.close()

    def _say_complete(self) -> None:
        """Tell neighbours that were gone when the run ended that it is complete; on a busy machine they dial late."""
        self.board.update(phase="complete")
        self._connect()
        began = time.monotonic()
        while (waited := time.monotonic() - began) < LONGEST_LINGER and (waited < LINGER or not self._all_know()):
            time.sleep(LOOK / 10)
        self._disconnect()

    def _all_know(self) -> bool:
        """Tell whether some neighbours are there, and each of these has ended as well."""
        there = [name for name, is_there in self._alive.items() if is_there]
        cards = self.board.cards
        return bool(there) and all(name in cards and cards[name].phase in ENDED for name in there)

    def ask_to_stop(self, reason: str) -> None:
        """Ask all agents to end at the next chunk, or now where one of them is stuck."""
        self.board.update(stop=reason)

    def _enter(self, without: tuple[str, ...]) -> Segment:
        """Return the segment without some agents: the present one, or a new one."""
        if self._segment is None or self._segment.without != without:
            if self._segment is not None:
                self._segment.job.sink.finish("interrupted")
            members = tuple(k for k, name in enumerate(self.place.names) if name not in without)
            request = replace(self.request, out=self._folder_of(without), resume=True)
            self._segment = Segment(
                request,
                self.terms,
                self.place,
                members,
                self.mailbox,
                lambda: bool(self.board.own.stop),
                self._secret,
            )
            self._attempt = self._segment.job.sink.progress.attempt
        return self._segment

    def _folder_of(self, without: tuple[str, ...]) -> Path:
        return segment_folder(self.folder, without)

    # --- meeting -----------------------------------------------------------------------------------------

    def _meet(self) -> tuple[Segment, Meeting] | None:
        """Wait until all agents are ready for one and the same epoch; None, if the run is complete already."""
        while True:
            cards = self.board.cards
            self._check_wishes(cards)
            own = self.board.own
            segment = self._enter(self._decided(cards))
            others = [card for name, card in cards.items() if name != own.name and name in segment.members]
            has_all = segment.job.sink.progress.drawn >= self.request.length.num_samples
            if has_all and any(card.phase == "complete" for card in others):
                return None
            epoch = next_epoch(own, others, self._floor, self._has_met)
            if self._key is None or self._key[0] != epoch:
                self._key = (epoch, KeyPair())
            linked = all(self._alive[name] for name in self.place.neighbors if name in segment.members)
            says: dict[str, Any] = {
                "epoch": epoch,
                "phase": phase_before(linked, cards, segment.members),
                "bases": tuple(segment.job.sink.checkpoints),
                "attempt": max([self._attempt, *(card.attempt for card in others)]),
                "key": self._key[1].public.hex(),
                "identity": segment.alike,
            }
            with self._deciding:
                own = self.board.own
                says["without"] = tuple(sorted({*own.without, *segment.without}))
                if any(getattr(own, name) != value for name, value in says.items()):
                    own = self.board.update(**says)
            here = [own, *(card for card in others if is_here(card, segment.alike["agent.without"], self.terms.mask))]
            crew = sorted(here, key=lambda card: self.place.names.index(card.name))
            is_whole = len(crew) == len(segment.members) and self._are_alike(crew)
            if is_whole and is_ready(crew, epoch) and self._have_a_base(crew):
                return segment, self._meeting(segment, crew)
            self.board.wait(LOOK)

    def _meeting(self, segment: Segment, crew: list[Card]) -> Meeting:
        digest, base = digest_of(self.place.run_id, crew), common_base(crew)
        assert base is not None
        masks = None
        if self.terms.mask:
            assert self._key is not None
            keys = [bytes.fromhex(card.key) for card in crew]
            masks = Masks(self._key[1], segment.members.index(self.place.name), keys, digest)
        attempt = max(card.attempt for card in crew)
        return Meeting(crew[0].epoch, base, attempt, masks, int.from_bytes(digest[:7], "big"))

    def _are_alike(self, crew: list[Card]) -> bool:
        """Tell whether all run the same thing; if not, refuse to start, or in the midst of a run wait for others."""
        # Not all agents know what their columns are called; those that do have them in one order.
        known = {what: names for card in crew for what, names in card.identity.items() if what.startswith(COLUMNS)}
        lines = differences({card.name: {**known, **card.identity} for card in crew}, show=str)
        if not lines:
            return True
        refusal = Refused(
            "the agents do not run the same thing",
            "".join(f"\n  {line}" for line in lines) + "\n",
            "Give all agents the same settings, model and versions, and start them again.",
        )
        if not self._has_met:
            raise refusal
        self._say_once(f"{refusal.subject}: {refusal.reason}".rstrip())  # it is the newcomer who has to go
        return False

    def _have_a_base(self, crew: list[Card]) -> bool:
        """Tell whether there is an iteration that all can go back to; there is none where one has lost its folder."""
        if common_base(crew) is not None:
            return True
        newest = ", ".join(f"{card.name} at {max(card.bases, default=0)}" for card in crew)
        subject = "the agents have no iteration in common that they could go back to"
        if not self._has_met:
            raise Refused(
                subject,
                newest,
                "Put back the folder run of the one that is behind; or let all agents delete theirs, and start over: "
                "the draws will be the same.",
            )
        self._say_once(f"{subject}: {newest}.")
        return False

    # --- running -----------------------------------------------------------------------------------------

    def _run_epoch(self, segment: Segment, meeting: Meeting) -> None:
        with self._deciding:
            self.mailbox.begin(meeting.epoch)
            self._has_met, self._attempt = True, meeting.attempt
            self._floor = meeting.epoch + 1
            self._running = (meeting.epoch, segment)
            self.board.update(phase="running")
        log.info("epoch %d: from iteration %d", meeting.epoch, meeting.base)
        self._look()
        try:
            done = segment.begin(meeting)
            self.meter.begin(meeting.base)
            draw(segment.job, done, time.perf_counter(), partial(self._count, segment))
        except (Stopped, Interrupted):
            raise
        except Exception as error:
            if self.mailbox.ended is None:
                raise
            raise self.mailbox.ended from error  # which lost its type on the way through compiled code
        finally:
            with self._deciding:
                self._running = None

    def _count(self, segment: Segment, chunk: Chunk, done: Progress) -> None:
        iteration, rounds = done.iterations(self.request.length.thin), segment.collectives.traffic.rounds
        self.meter.count(iteration, chunk, self.mailbox.messages, self.mailbox.bytes, rounds)

    def _interrupted(self, meeting: Meeting, reason: Interrupted) -> None:
        """Prepare to meet again, with other random numbers if agents took different turns; fail if they do so often."""
        self._say(f"going back: {reason}")
        if isinstance(reason, OutOfStep):
            self._attempt = meeting.attempt + 1
            iterations = self.meter.iteration * self.request.length.num_chains
            if self._attempt > max(1, MOST_REDONE * iterations):
                raise RuntimeError(
                    f"the agents fell out of step {self._attempt} times in {iterations} iterations ({reason}): "
                    f"{not_alike()}"
                ) from None

    def _wait_for_the_others(self, segment: Segment, meeting: Meeting) -> None:
        """Wait until all agents have all draws on disk: before that, one may need the others once more."""
        self.board.update(phase="done")
        while True:
            cards = [card for name, card in self.board.cards.items() if name in segment.members]
            done = {card.name for card in cards if card.epoch == meeting.epoch and card.phase in ("done", "complete")}
            gone = set(self._lost()) if self.terms.on_loss == "continue-without" else set()
            if done | gone == set(segment.members) or any(card.phase == "complete" for card in cards):
                return
            if any(card.epoch > meeting.epoch for card in cards):
                raise Interrupted("an agent has to do the end of the run once more")
            self._check_wishes(self.board.cards)
            self.board.wait(LOOK)

    # --- what happens meanwhile, in other threads --------------------------------------------------------

    def _arrive(self, topic: str, sender: str, raw: bytes) -> None:
        self.board.arrive(sender, raw)

    def _see(self, name: str, is_there: bool) -> None:
        """Handle a neighbour's liveliness token that has come or gone."""
        if self._alive[name] == is_there:
            return
        self._alive[name] = is_there
        self._say(f"the link to {name} is {'up' if is_there else 'lost'}")
        if is_there:
            self.board.greet(name)
            with self._deciding:
                if self._running is not None:  # messages may have been lost meanwhile
                    self._floor = max(self._floor, self._running[0] + 1)
                    self.mailbox.end(Interrupted(f"the link to {name} is there again"))
        self._look()

    def _look(self) -> None:
        """Check the board: pass on a wish to stop, end an epoch that is over for others, and judge losses."""
        with self._deciding:
            self._judge_cards()

    def _judge_cards(self) -> None:
        self.mailbox.tick()
        cards = self.board.cards
        own = self.board.own
        # The card of an agent that has ended stays for a while; its wish to stop is not for those who come later.
        members = self._segment.members if self._segment is not None else self.place.names
        crew = [card for card in cards.values() if card.name in members]
        wishes = [card.stop for card in crew if card.stop and (self._has_met or card.phase not in ENDED)]
        wish = next(iter(wishes), "")
        if wish and not own.stop:
            own = self.board.update(stop=wish)
        if self._running is not None:
            epoch, segment = self._running
            for card in crew:
                if card.epoch > epoch:
                    self.mailbox.end(Interrupted(f"{card.name} asks for a new start"))
            if self._decided(cards) != segment.without:
                self.mailbox.end(Interrupted("an agent is given up"))
            if own.stop and self.mailbox.waiting_for is not None:
                self.mailbox.end(Interrupted(own.stop))
        if self._has_met and own.phase in (*STARTABLE[:2], "joining", *["done"] * (self.terms.on_loss == "stop")):
            self._judge_losses()

    def _lost(self) -> list[str]:
        """Return the agents that nothing has been heard of for long, over whatever links."""
        assert self._segment is not None
        patience = max(self.terms.patience, self.mailbox.patience)
        return [
            name
            for name in self._segment.members
            if name != self.place.name and not self._alive.get(name) and self.board.silence(name) > patience
        ]

    def _judge_losses(self) -> None:
        """Ask all to stop, or give up the agents that are gone, as the terms' `on_loss` says."""
        segment, lost = self._segment, self._lost()
        assert segment is not None
        if self.terms.on_loss == "stop" and lost and not self.board.own.stop:
            self.ask_to_stop(f"{self.place.name}: {', '.join(lost)} {'was' if len(lost) == 1 else 'were'} lost")
        if self.terms.on_loss == "continue-without":
            gives_up = tuple(sorted({*segment.without, *lost}))
            if gives_up != self.board.own.without:  # also where one is heard of again, before the others gave it up
                self._say(f"gives up {', '.join(gives_up) or 'nobody'}")
                self.board.update(without=gives_up)

    def _decided(self, cards: Mapping[str, Card]) -> tuple[str, ...]:
        """Return the agents that are left out: those that most have given up, if the rest can go on."""
        assert self._segment is not None
        known = self._segment.without
        if self.terms.on_loss != "continue-without":
            return known
        found = given_up_by_most(cards, len(self.place.names), known)
        if found == set(known):
            return known
        members = tuple(k for k, name in enumerate(self.place.names) if name not in found)
        gone = ", ".join(sorted(found))
        if len(members) < (FEWEST_MASKED if self.terms.mask else 2):
            self._say_once(f"without {gone} the others are too few to go on: waiting")
        elif not is_connected(self.request.network, members):
            self._say_once(f"without {gone} the others cannot reach each other: waiting")
        else:
            return tuple(sorted(found))
        return known

    def _check_wishes(self, cards: Mapping[str, Card]) -> None:
        """Raise `Stopped` where all are to end, or `Excluded` where the others no longer wait for this agent."""
        assert self._segment is not None
        if self.place.name in given_up_by_most(cards, len(self.place.names), self._segment.without):
            raise Excluded(f"the others went on without {self.place.name}, which was gone too long.")
        if self.board.own.stop:
            raise Stopped(self.board.own.stop)

    # --- reports and log ---------------------------------------------------------------------------------

    def _report(self) -> dict[str, Any]:
        """Return the report for this agent's card, and show the status of the run here."""
        waiting = self.mailbox.waiting_for
        missing = self._missing() if self._running is None else []
        report = {
            **self.meter.report(),
            "neighbors": {name: "up" if is_up else "lost" for name, is_up in self._alive.items()},
            "waiting_for": [self.place.names[waiting]] if waiting is not None else missing,
            "refused": sum(self.mailbox.refused.values()) + sum(self.board.refused.values()),
            "without": list(self._segment.without) if self._segment is not None else [],
        }
        try:
            self._show(status_of(self.place, self.board.own.changed(report=report), self.board))
        except Exception as error:  # a full disk, a terminal that is gone, a mistake in it: not the others' concern
            self._say_once(f"the status is not shown: {type(error).__name__}: {error}")
        return report

    def _missing(self) -> list[str]:
        cards, own = self.board.cards, self.board.own
        names = self._segment.members if self._segment is not None else self.place.names
        return [
            name
            for name in names
            if name != own.name
            and (name not in cards or cards[name].epoch != own.epoch or cards[name].phase not in STARTABLE)
        ]

    def _answer(self) -> bytes:
        return json.dumps(status_of(self.place, self.board.own, self.board)).encode()

    def _blame(self, error: Exception) -> str:
        return "" if isinstance(error, Refused) and not self._has_met else f"{self.place.name} failed: {error}"

    def _say(self, text: str) -> None:
        log.info("%s", text)

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            log.warning("%s", text)


def own_secret(key: bytes, run_id: str) -> tuple[int, ...]:
    """Return numbers that follow from an agent's private key, and are the same whenever it resumes this run."""
    digest = hashlib.sha256(b"consilience own variables 1" + bytes.fromhex(run_id) + key).digest()
    return tuple(int.from_bytes(digest[first : first + 4], "big") for first in range(0, 16, 4))


def _check_request(request: Request, terms: Terms) -> None:
    """Refuse what agents on their owners' machines cannot run."""
    sampler = request.sampler
    if not sampler.communicates:
        raise Refused(sampler.name, "it is not run by peers", "Use nuts, hmc, mala, surrogate or dmala.")
    check_mask(terms.mask, request.network.size, sampler)
    check_consensus(terms.consensus, terms.mask, request.network.size)
    if request.posterior.own_log_prior is not None and not terms.mask:
        reason = "a part of a sum can give variables away that are to stay with their owner, and only masks hide parts"
        fix = f"Provision the run with consilience init --mask, for {FEWEST_MASKED} agents or more."
        raise Refused("mask", reason, fix)
    if request.moments is not False or request.watch is not None:
        raise Refused("moments and watch", "peers keep draws only", "Leave them out.")
