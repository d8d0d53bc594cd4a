// How a program in TypeScript uses a service, with types that openapi-typescript has made from its document.
import type { components, operations, paths } from "./service.js";

type Session = components["schemas"]["SessionView"];
type Event = components["schemas"]["Event"];
type Problem = components["schemas"]["Problem"];
type Start = operations["sessions.start"]["requestBody"]["content"]["application/json"];
type Sessions = paths["/v1/sessions"]["get"]["responses"][200]["content"]["application/json"];

export class ServiceError extends Error {
  constructor(readonly problem: Problem) {
    super(`${problem.code}: ${problem.detail}${problem.hint ? ` ${problem.hint}` : ""}`);
  }
}

export class Client {
  constructor(private readonly address: string, private readonly token: string) {}

  private async ask<T>(method: "GET" | "POST", path: string, body?: unknown): Promise<T> {
    const headers: Record<string, string> = { Authorization: `Bearer ${this.token}` };
    if (method === "POST") headers["Idempotency-Key"] = crypto.randomUUID();
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const answer = await fetch(this.address + path, { method, headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new ServiceError((await answer.json()) as Problem);
    return (await answer.json()) as T;
  }

  start(body: Start): Promise<Session> {
    return this.ask("POST", "/v1/sessions", body);
  }

  get(id: string): Promise<Session> {
    return this.ask("GET", `/v1/sessions/${encodeURIComponent(id)}`);
  }

  async *waiting(): AsyncGenerator<Sessions["items"][number]> {
    let after: string | null | undefined;
    do {
      const page: Sessions = await this.ask("GET", `/v1/sessions?status=waiting${after ? `&after=${after}` : ""}`);
      yield* page.items;
      after = page.next;
    } while (after);
  }

  async *events(id: string, after = 0): AsyncGenerator<Event> {
    const headers = { Authorization: `Bearer ${this.token}`, Accept: "text/event-stream", "Last-Event-ID": `${after}` };
    const answer = await fetch(`${this.address}/v1/sessions/${encodeURIComponent(id)}/events`, { headers });
    if (!answer.ok || !answer.body) throw new ServiceError((await answer.json()) as Problem);
    let rest = "";
    for await (const text of answer.body.pipeThrough(new TextDecoderStream())) {
      const messages = (rest + text).split("\n\n");
      rest = messages.pop() ?? "";
      for (const one of messages) {
        const data = one.split("\n").find((line) => line.startsWith("data: "));
        if (one.includes("id: ") && data) yield JSON.parse(data.slice(6)) as Event;
      }
    }
  }
}

const [address = "", token = "", id = ""] = process.argv.slice(2);
const client = new Client(address, token);
const begun = await client.start({ program: "typescript_sample", arguments: { pr: 7 }, id });
for await (const one of client.events(begun.uid)) {
  if (one.kind === "session.parked" || one.kind === "session.finished") break;
}
const view = await client.get(id);
const seen: string[] = [];
for await (const one of client.waiting()) seen.push(one.id);
try {
  await client.get("missing");
} catch (error) {
  if (!(error instanceof ServiceError)) throw error;
  console.log(JSON.stringify({ status: view.status, seen, waits: (view.waits ?? []).map((one) => one.kind), code: error.problem.code }));
}
