"""What a sampler must make of a generated recording: complaints about a result, given the truth."""

ROUNDING = 1  # ms: both sides round a frame's time
BLURRED = 1  # pixels; an encoder that skips a block shows it where it was
READABLE = 200  # ms; a line that is wholly visible so long must stand in a kept frame


def near(time, times):
    return any(abs(time - other) <= ROUNDING for other in times)


def gaps(frames, duration):
    """Kept frames must follow one another without a gap, from the beginning to the end."""
    if frames[0]["t_start"] != 0 or frames[-1]["t_end"] != duration:
        yield f"frames from {frames[0]['t_start']} to {frames[-1]['t_end']} of {duration} ms"
    for before, after in zip(frames, frames[1:]):
        if not before["t_start"] < before["still_until"] <= before["t_end"] == after["t_start"]:
            yield f"{before['t_start']} to {before['t_end']}, next from {after['t_start']}"


def lost_lines(frames, truth):
    """Lines that no kept picture shows."""
    readable = 0 if truth.get("states") else READABLE
    times = [frame["timestamp_ms"] for frame in frames]
    for line in truth["lines"]:
        start, end = line["t_start_ms"], line["t_end_ms"]
        if end - start < readable or (truth.get("states") and end - start < 45):
            continue
        if not any(start - ROUNDING <= time < end + ROUNDING for time in times):
            yield f"no frame shows \"{line['text']}\", {start} to {end} ms"


def wrong_times(frames, truth):
    """Times at which a kept frame has to begin."""
    lines = truth["lines"]
    end = max((line["t_end_ms"] for line in lines), default=0)
    wanted = set(truth.get("moments", []))
    if truth.get("states") or truth.get("starts_of_lines"):
        wanted |= {line["t_start_ms"] for line in lines}
    if truth.get("states"):
        wanted |= {line["t_end_ms"] for line in lines} - {end}
    starts = [frame["t_start"] for frame in frames]
    for time in sorted(wanted):
        if not near(time, starts):
            yield f"nothing begins at {time} ms; {min(starts, key=lambda s: abs(s - time))} does"


def is_place(told, moved, truth):
    """Is that the way the content moved? What repeats itself may have moved a period less."""
    period = truth.get("period", 0)
    for one, other in zip(told, moved):
        off = abs(one - other)
        if period:
            off = min(off % period, -off % period)
        if off > BLURRED:
            return False
    return True


def wrong_places(frames, truth):
    """Movement that is not that of the truth, to the pixel."""
    places = {time: place for time, *place in truth["scroll"]}

    def place_at(time):
        return places[max(other for other in places if other <= time + ROUNDING)]

    for before, frame in zip(frames, frames[1:]):
        origin = place_at(before["timestamp_ms"])
        for time, dx, dy in frame.get("motion", []):
            moved = [here - there for here, there in zip(place_at(time), origin)]
            if not is_place([dx, dy], moved, truth):
                yield f"moved by {dx}, {dy} at {time} ms, and was {moved}"


def lost_ways(frames, truth):
    """Kept frames whose content moved, and of which that is not known."""
    places = {time: place for time, *place in truth["scroll"]}
    for before, frame in zip(frames, frames[1:]):
        here = places.get(frame["timestamp_ms"])
        there = places.get(before["timestamp_ms"])
        if here is None or there is None:
            continue
        moved = [one - other for one, other in zip(here, there)]
        if not is_place([frame["dx"] or 0, frame["dy"] or 0], moved, truth):
            yield f"frame at {frame['timestamp_ms']} ms: {frame['dx']}, {frame['dy']}, not {moved}"


def complaints(result, truth):
    frames = result["frames"]
    found = [*gaps(frames, result["duration_ms"]), *lost_lines(frames, truth),
             *wrong_times(frames, truth)]
    if truth["scroll"]:
        found += [*wrong_places(frames, truth), *lost_ways(frames, truth)]
    if len(frames) > truth["frames_most"]:
        found.append(f"{len(frames)} frames, at most {truth['frames_most']} expected")
    return found
