"""The gates of continuous integration: figures that repeat, held in both directions."""


def check(context, update):
    context.progress.note("gates are not measured yet")
    return 1
