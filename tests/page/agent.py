"""An agent that uses the library by the Model Context Protocol: the protocol's own client, in a browser."""

import contextlib
import pathlib

CLIENT = (pathlib.Path(__file__).resolve().parent / "vendor" / "mcp-client.min.js").read_text() + "\nwindow.Mcp = Mcp;"
# Runs the steps [[method of the client, argument]…] in one connection; a step that is refused gives {"refused": its message}.
STEPS = """const [steps, headers, done] = arguments;
    (async () => {
        const client = new Mcp.Client({name: 'test', version: '1'});
        const url = new URL('/api/v1/mcp', location.href);
        await client.connect(new Mcp.StreamableHTTPClientTransport(url, {requestInit: {headers, credentials: headers.Authorization ? 'omit' : 'same-origin'}}));
        const answers = [{server: client.getServerVersion(), can: client.getServerCapabilities()}];
        for (const [method, argument] of steps) {
            answers.push(await client[method](argument).catch((fault) => ({refused: fault.message})));
        }
        await client.close();
        return answers;
    })().then(done, (fault) => done([{refused: String(fault)}]));"""


def run_agent(screen, *steps, **headers):
    """What the server says of itself, and the answers to the steps."""
    screen.script(CLIENT)
    answers = screen.driver.execute_async_script(STEPS, steps, headers or {"X-Cortana": "1"})
    assert len(answers) == 1 + len(steps) or "refused" in answers[0] and headers, answers
    return answers


def tool(name, /, **arguments):
    return ["callTool", {"name": name, "arguments": arguments}]


@contextlib.contextmanager
def agent_page(screen, shown=".card"):
    """A function that runs steps as who is signed in, on the first page."""
    # The client tries whether it may compile code, which the page's policy refuses, with a word in the console.
    screen.driver.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    screen.open("/")
    screen.see(shown)
    yield lambda *steps, **headers: run_agent(screen, *steps, **headers)
    screen.driver.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})
