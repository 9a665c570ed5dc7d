"""Ten ordinary kinds of video, made by ffmpeg from numbers: the same bytes at each run of one version of ffmpeg.

What a camera sees is made of random spots of three sizes that move by one another, with noise on them.
"""
import hashlib
import subprocess

FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
WORDS = ("harbour lantern ticket window river signal copper garden engine market velvet thunder pocket saddle mirror orchard"
         " printer candle village compass meadow rocket blanket whistle anchor bridge ladder pepper island button castle").split()


def text(words, x, y, size, more="", colour="white"):
    return f"drawtext=fontfile={FONT}:text='{words}':x={x}:y={y}:fontsize={size}:fontcolor={colour}{more}"


def line(number):
    return " ".join(WORDS[(7 * number + k * (number % 5 + 1)) % len(WORDS)] for k in range(5))


def lines(count, x, y, pitch, size, first=0, more="", colour="black"):
    """A column of text."""
    return ",".join(text(line(first + n), x, f"{y + n * pitch}", size, more, colour) for n in range(count))


def between(begin, end):
    return f":enable='between(t,{begin},{end - 0.001})'"


def layer(width, height, rate, size, strength, x, y, seed):
    """Random spots of about `size` pixels, through which a window moves: x and y are of the time t."""
    wide, high = width + 640, height + 640
    return (f"color=gray:s={wide // size}x{high // size}:r={rate},noise=alls={strength // 2}:c0s={strength}:all_seed={seed},trim=end_frame=1,"
            f"scale={wide}:{high}:flags=bicubic,setsar=1,format=yuv420p,loop=-1:1,setpts=N/({rate}*TB),"
            f"crop={width}:{height}:x='320+{x}':y='320+{y}'")


def camera(name, width, height, rate, x, y, noise, seed=1):
    """What a camera sees, as a graph whose output has that name: things of all sizes, of which the large ones are further
    away, and the noise of the sensor."""
    layers = ";".join(f"{layer(width, height, rate, size, strength, f'{share}*({x})', f'{share}*({y})', seed + size)}[{name}{size}]"
                      for size, strength, share in ((8, 12, 1), (32, 50, 0.7), (128, 100, 0.4)))
    return (f"{layers};[{name}128][{name}32]blend=all_mode=average[{name}64];[{name}64][{name}8]blend=all_mode=average,"
            f"lutyuv=y=(val-128)*3+128,noise=alls={noise}:allf=t:all_seed=7[{name}]")


def film(seconds):
    scene = seconds / 4
    scenes = ";".join(camera(f"s{n}", 1920, 1080, 24, f"{40 + 30 * n}*sin(t+{n})", f"20*cos({n}*t)", 5, 1000 * n) for n in range(4))
    cuts = ";".join(f"[s{n}]trim=duration={scene}[c{n}]" for n in range(4))
    return f"{scenes};{cuts};[c0][c1][c2][c3]concat=n=4"


def talk(seconds):
    return (f"{camera('room', 1280, 720, 30, '0', '0', 3)};{camera('head', 360, 480, 30, '25*sin(2*t)', '9*sin(5*t)', 3, 50)};"
            "[room][head]overlay=x='460+12*sin(2*t)':y='180+5*sin(5*t)',"
            + text("Ada Harbour, lighthouse keeper", 80, 600, 40, between(1, seconds - 1)))


def sport(seconds):
    return (camera("field", 1280, 720, 50, "310*sin(t)", "100*sin(t/2)", 6) + ";[field]drawbox=x=40:y=30:w=420:h=60:color=black:t=fill,"
            + text("HAR 2   1 MEA", 60, 44, 34) + "," + text(r"%{pts\:hms}", 320, 50, 24))


def game(seconds):
    return (camera("world", 1920, 1080, 60, "300*sin(t)", "200*cos(t)", 1)
            + ";[world]drawbox=x=30:y=30:w=360:h=110:color=black@0.6:t=fill," + text("Quest - the copper bridge", 44, 44, 26)
            + "," + text(r"Score %{eif\:floor(t)*150\:d}", 44, 90, 26))


def phone(seconds):
    return camera("street", 3840, 2160, 30, "60*sin(3*t)+t*8", "30*sin(4*t)", 6) + ";[street]format=yuv420p10"


def page(size, rate, background="white"):
    return f"color=c={background}:s={size}:r={rate},format=yuv420p"


def screenshots(seconds):
    return page("1280x720", 1) + "," + ",".join(
        lines(10, 60, 60, 60, 30, first=10 * n, more=between(4 * n, 4 * n + 4)) for n in range(seconds // 4))


def slides(seconds):
    return page("1920x1080", 30, "0xf4f0e8") + "," + ",".join(
        text(line(n), 120, 100, 72, between(4 * n, 4 * n + 4), "black") + ","
        + lines(6, 160, 280, 110, 44, first=10 * n, more=between(4 * n, 4 * n + 4)) for n in range(seconds // 4))


def screen(seconds):
    """A terminal at 120 pictures a second: two thirds of each second it stands, then it scrolls by ten lines."""
    column = ",".join(text(line(n), 40, f"{40 + 36 * n}-360*(floor(t)+max(0\\,3*(mod(t\\,1)-2/3)))", 24, "", "0xd0d0d0")
                      for n in range(28 + 10 * seconds))
    return page("1920x1080", 120, "0x101418") + "," + column


def stream(seconds):
    """A game, and beside it a chat into which a line comes every 1.5 seconds."""
    chat = ",".join(text(line(n), 910, f"660-40*(floor(t/1.5)-{n})", 18, f":enable='gte(t,{1.5 * n})'")
                    for n in range(-14, int(seconds / 1.5) + 1))
    return (camera("world", 1280, 720, 60, "300*sin(t)", "200*cos(t)", 1) + f";[world]drawbox=x=896:w=384:h=720:color=0x18181b:t=fill,{chat},"
            + text("LIVE", 30, 26, 28))


H264 = ["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-g", "250"]
# Seconds, pictures, and encoder; cameras and films are encoded with B-pictures, recordings of screens often without.
KINDS = {
    "film": (5, film, [*H264, "-crf", "21"]),
    "talk": (8, talk, [*H264, "-crf", "23"]),
    "sport": (5, sport, [*H264, "-crf", "21"]),
    "game": (4, game, [*H264, "-crf", "23", "-bf", "2"]),
    "phone 4K HEVC": (3, phone, ["-c:v", "libx265", "-preset", "ultrafast", "-crf", "20", "-tag:v", "hvc1",
                                 "-x265-params", "log-level=1"]),
    "1 fps": (60, screenshots, [*H264, "-crf", "23"]),
    "still slides": (16, slides, [*H264, "-crf", "23"]),
    "120 fps screen": (4, screen, [*H264, "-crf", "20", "-bf", "0"]),
    "720p60 stream": (6, stream, [*H264, "-crf", "23", "-bf", "2"]),
}


def make(kind, folder):
    """The path of a video of this kind, made unless it is there."""
    seconds, pictures, encoder = KINDS[kind]
    command = ["-f", "lavfi", "-i", f"{pictures(seconds)}", "-t", str(seconds), *encoder, "-threads", "2"]
    path = folder / f"{kind.replace(' ', '-')}-{hashlib.sha256(' '.join(command).encode()).hexdigest()[:8]}.mp4"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(".part.mp4")
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", *command, made], check=True)
        made.rename(path)
    return path
