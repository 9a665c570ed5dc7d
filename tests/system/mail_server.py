"""A small SMTP server that keeps the mails it is handed. It offers STARTTLS if it has a certificate."""

import base64
import email
import email.policy
import socketserver
import threading

from workers import wait_until


class MailServer(socketserver.ThreadingTCPServer):
    """`replies`: what the next commands of a name are answered instead, such as {"DATA": ["451 later"]}; a reply to "." is that
    to the mail itself. `account`: (user, password) that it asks for."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, context=None, account=None, address="127.0.0.1"):
        super().__init__((address, 0), Session)
        self.context, self.account = context, account
        self.mails, self.commands, self.replies = [], [], {}
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def url(self, user="cortana%40example.org:p%40ss", host="127.0.0.1", query="?page=https://videos.example.org"):
        return f"smtp://{user + '@' if user else ''}{host}:{self.port}{query}"

    def wait_for(self, to, count=1):
        """The mails to an address, as email.message.EmailMessage, when there are so many."""
        return wait_until(lambda: (found := [one for one in self.mails if to in one["To"]])[count - 1:] and found, f"mail to {to}")

    def close(self):
        self.shutdown()
        self.server_close()


class Session(socketserver.StreamRequestHandler):
    has_tls = False

    def say(self, text):
        self.wfile.write(text.encode() + b"\r\n")

    def answer(self, name, usual):
        scripted = self.server.replies.get(name)
        reply = scripted.pop(0) if scripted else usual
        self.say(reply)
        return reply[0] in "23"

    def handle(self):
        self.say("220 test ESMTP")
        while line := self.rfile.readline():
            words = line.decode().strip()
            name = words.split(" ")[0].upper()
            self.server.commands.append((name, self.has_tls))
            getattr(self, f"do_{name.lower()}", self.do_other)(words)

    def do_other(self, words):
        self.answer(words.split(" ")[0].upper(), "250 fine")

    def do_quit(self, words):
        self.say("221 bye")

    def do_ehlo(self, words):
        offers = (["STARTTLS"] if self.server.context and not self.has_tls else []) + (["AUTH PLAIN"] if self.server.account else [])
        lines = ["test", *offers]
        for n, offer in enumerate(lines):
            self.say(f"250{' ' if n == len(lines) - 1 else '-'}{offer}")

    def do_starttls(self, words):
        self.say("220 go on")
        self.request = self.server.context.wrap_socket(self.request, server_side=True)
        self.setup()
        self.has_tls = True

    def do_auth(self, words):
        given = words.split(" ")[2:]
        if not given:
            self.say("334 ")
            given = [self.rfile.readline().decode().strip()]
        good = base64.b64decode(given[0]).decode().split("\0")[1:] == list(self.server.account)
        self.answer("AUTH", "235 welcome" if good else "535 5.7.8 wrong user or password")

    def do_data(self, words):
        if not self.answer("DATA", "354 go on"):
            return
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b"."))
        if self.answer(".", "250 2.0.0 taken"):
            mail = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
            mail.raw, mail.has_tls = b"".join(lines), self.has_tls
            self.server.mails.append(mail)
