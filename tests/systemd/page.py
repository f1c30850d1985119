"""The commands that docs/SERVICE.md names, typed as an administrator would: those for systemd and for the node as a
whole are played, and all options of others are looked up in the help of their program."""

import re
import shlex

from service_trial import REPOSITORY

PAGE = REPOSITORY / "docs/SERVICE.md"
# In an order in which they make sense; each with what it prints.
SESSION = (
    ("systemctl daemon-reload", ""),
    ("mgbd --settings /etc/mgb/mgbd.toml --check", r"^policy = "),
    ("systemctl enable --now mgbd", ""),
    ("systemd-tmpfiles --create", ""),
    ("mgb status", r"^GPU|^gpu"),
    ("mgb status --json", r'"gpus"'),
    ("mgb quota", ""),
    ("systemctl reload mgbd", ""),
    ("mgb drain GPU --end", ""),
    ("journalctl -u mgbd --grep 'audit order='", r"order=\W?end-drain"),
    ("systemctl restart mgbd", ""),
    ("mgb stop", "has ended"),
    ("systemctl stop mgbd", ""),
    ("systemctl enable --now mgbd.socket", ""),
    ("systemd-analyze security mgbd", r"[Oo]verall exposure level.* 2\.0 "),
)
STANDS_FOR = {"GPU": "0"}


def page(trial):
    # A name may be broken by the end of a line.
    text = " ".join(PAGE.read_text().split())
    named = re.findall(r"`((?:mgbd?|systemctl|systemd-[a-z]+|journalctl) [^`]+)`", text)
    played = [command for command, _ in SESSION]
    trial.check("the page names what is played", set(played) <= set(named), set(played) - set(named) or None)
    trial.systemctl("stop", "mgbd")
    for command, prints in SESSION:
        words = [STANDS_FOR.get(word, word) for word in shlex.split(command)]
        trial.systemctl("reset-failed", "mgbd")
        old = trial.pid()
        said = trial.machine.run(words)
        is_right = said["code"] == 0 and re.search(prints, said["stdout"], re.MULTILINE) is not None
        trial.check(f"`{command}`", is_right, None if is_right else said)
        if command == "mgb stop":
            again = trial.next_mgbd(old)
            trial.check("  and systemd starts it again", again is not None)
    wrong = [command for command in dict.fromkeys(named) if command not in played and not is_known(trial, command)]
    trial.check("options of all other commands are in their help", not wrong, wrong or None)
    trial.systemctl("disable", "--now", "mgbd.socket")
    trial.systemctl("stop", "mgbd")
    trial.said()


def is_known(trial, command):
    words = shlex.split(command)
    program = words[:1] if words[0] == "mgbd" else words[:2]
    if words[0] not in ("mgb", "mgbd"):
        return False
    told = trial.machine.run([*program, "--help"])
    options = [word for word in words if word.startswith("--")]
    return told["code"] == 0 and all(re.search(rf"{option}\b", told["stdout"]) for option in options)
