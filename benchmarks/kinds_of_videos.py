"""Ten ordinary kinds of video, made by ffmpeg from numbers: the same bytes at each run of one version of ffmpeg.

Pictures that move are fractals, enlarged so that they are as soft as what a camera sees, with grain on them.
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


def fractal(width, height, rate, place="0.743:start_y=-0.131", still=False):
    """A small picture, enlarged to this size."""
    return (f"mandelbrot=s={width // 6}x{height // 6}:r={rate}:maxiter=120:start_x=-{place}:end_pts={'1e9' if still else '400'},"
            f"scale={width}:{height}:flags=bicubic,setsar=1,format=yuv420p")


def grain(strength):
    return f"noise=alls={strength}:allf=t:all_seed=7"


def film(seconds):
    scene = seconds / 4
    places = ("0.743:start_y=-0.131", "0.16:start_y=-1.04", "1.25:start_y=-0.02", "0.748:start_y=-0.1")
    scenes = ";".join(f"{fractal(1920, 1080, 24, place)},{grain(5)},trim=duration={scene}[s{n}]" for n, place in enumerate(places))
    return f"{scenes};[s0][s1][s2][s3]concat=n=4"


def talk(seconds):
    head, room = fractal(360, 480, 30) + "[head]", fractal(1280, 720, 30, "0.16:start_y=-1.04", still=True) + "[room]"
    return (f"{head};{room};[room][head]overlay=x='460+12*sin(2*t)':y='180+5*sin(5*t)',{grain(3)},"
            + text("Ada Harbour, lighthouse keeper", 80, 600, 40, between(1, seconds - 1)))


def sport(seconds):
    return (f"{fractal(2560, 1440, 50, still=True)},crop=1280:720:x='600+560*sin(t/2)':y='300+200*sin(t/3)',{grain(8)},"
            "drawbox=x=40:y=30:w=420:h=60:color=black:t=fill," + text("HAR 2   1 MEA", 60, 44, 34)
            + "," + text(r"%{pts\:hms}", 320, 50, 24))


def game(seconds):
    return (f"{fractal(1920, 1080, 60)},{grain(1)},drawbox=x=30:y=30:w=360:h=110:color=black@0.6:t=fill,"
            + text("Quest - the copper bridge", 44, 44, 26) + "," + text(r"Score %{eif\:floor(t)*150\:d}", 44, 90, 26))


def phone(seconds):
    return (f"{fractal(4080, 2280, 30, still=True)},crop=3840:2160:x='120+60*sin(3*t)+t*8':y='60+30*sin(4*t)',{grain(8)},"
            "format=yuv420p10")


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
    return (f"{fractal(1280, 720, 60)},{grain(1)},drawbox=x=896:y=0:w=384:h=720:color=0x18181b:t=fill,{chat},"
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
