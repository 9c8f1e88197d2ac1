"""craze in one minute: a host, two clients, a permission, a lost client that comes back, a stop;
and then a lane.

`make demo` runs this. It needs nothing but the package: the agent is craze's own fake one.
"""

from lane import AGENT, act
from stage import play

if __name__ == "__main__":
    play([str(AGENT), "-script", "permission"], "Run the tests, please.", 30.0, {}, act)
