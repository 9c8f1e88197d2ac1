"""What `demo.py` shows, on a real agent: any program that speaks the Agent Client Protocol on its
standard streams, for example

    python examples/real_agent.py --prompt "Run ls." opencode acp

The agent runs in an empty folder with an empty home; `--env NAME` hands it a variable of yours:
an API key, or `HOME` itself for an agent that keeps its login there.
"""

import argparse
import os

from stage import play


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--prompt", default="Run `ls` and say what you see.")
    parser.add_argument("--env", action="append", default=[], metavar="NAME")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds a step may take")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the agent and its arguments")
    given = parser.parse_args()
    if not given.command:
        parser.error("which agent? name its program and arguments")
    env = {name: os.environ[name] for name in given.env if name in os.environ}
    program, *arguments = given.command
    if os.sep in program:  # its own folder is another one
        program = os.path.abspath(program)
    play([program, *arguments], given.prompt, given.patience, env)


if __name__ == "__main__":
    main()
