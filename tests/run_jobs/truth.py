"""What a job knows about its own growth: the memory of its process without a file behind it, from its own reading at two steps."""

import os

PAGE = os.sysconf("SC_PAGE_SIZE")


def own_bytes():
    with open("/proc/self/statm") as file:
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared) * PAGE


class Truth:
    """Call `step(n)` after each: the growth of each step since the hundred-and-fiftieth is printed when there are enough, and by `say()` at the end."""

    FIRST, ENOUGH = 150, 590

    def __init__(self):
        self.first = self.last = None

    def step(self, number):
        if number == self.FIRST:
            self.first = own_bytes()
        self.last = number
        if number == self.ENOUGH:
            self.say()

    def say(self):
        if self.first is not None and self.last > self.FIRST:
            print(f"truth: {(own_bytes() - self.first) / (self.last - self.FIRST):.0f} bytes each step", flush=True)
