// One measurement of another queue: node queue_peers.mjs FOLDER LIBRARY VERB OPTIONS, on PG_URL.
// FOLDER has the packages; LIBRARY is graphile-worker or pg-boss; VERB is drain, enqueue or latency, and
// prints one JSON object. add and hold are for queue_zombie.py: one job; a worker that says when it starts
// and ends it, until it is killed.
// produce and consume, until they are killed, are for queue_bad_days.py.
import { createRequire } from 'node:module'
import fs from 'node:fs'
import path from 'node:path'

const [folder, library, verb, text] = process.argv.slice(2)
const options = JSON.parse(text ?? '{}')
const load = createRequire(path.resolve(folder, 'package.json'))
const url = process.env.PG_URL
const pg = load('pg')
const pool = new pg.Pool({ connectionString: url, max: 30 })
pool.on('error', () => {})
pool.on('connect', client => client.on('error', () => {}))
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
const seconds = since => (performance.now() - since) / 1000

class GraphileWorker {
  constructor () {
    this.library = load('graphile-worker')
    this.logger = new this.library.Logger(() => () => {})
  }

  async open (isNew) {
    if (isNew) await pool.query('drop schema if exists graphile_worker cascade')
    await this.library.runMigrations({ pgPool: pool, logger: this.logger })
    this.utils = await this.library.makeWorkerUtils({ pgPool: pool, logger: this.logger })
  }

  addOne (id) { return this.utils.addJob('noop', { id }) }
  addMany (ids) { return this.utils.addJobs(ids.map(id => ({ identifier: 'noop', payload: { id } }))) }
  vacuum () { return pool.query('vacuum analyze graphile_worker._private_jobs') }

  async work (handle) {
    const worker = { connectionString: url, ...options.worker }
    this.runner = await this.library.run({
      preset: { worker }, logger: this.logger, noHandleSignals: true,
      taskList: { noop: async payload => handle([payload.id]) }
    })
  }

  async left () {
    const { rows } = await pool.query('select exists (select from graphile_worker._private_jobs) as left')
    return rows[0].left
  }

  async close () { await this.runner?.stop(); await this.utils.release() }
}

class PgBoss {
  async open (isNew) {
    if (isNew) await pool.query('drop schema if exists pgboss cascade')
    const { PgBoss: Boss } = load('pg-boss')
    this.boss = new Boss({ connectionString: url, useListenNotify: Boolean(options.notify), ...options.boss })
    this.boss.on('error', error => console.error(error.message))
    await this.boss.start()
    if (isNew) await this.boss.createQueue('noop', { notify: Boolean(options.notify), ...options.queue })
  }

  addOne (id) { return this.boss.send('noop', { id }) }
  addMany (ids) { return this.boss.insert('noop', ids.map(id => ({ data: { id } }))) }
  vacuum () { return pool.query('vacuum analyze pgboss.job') }
  work (handle) {
    return this.boss.work('noop', options.worker ?? {}, async jobs => handle(jobs.map(job => job.data.id)))
  }

  async left () {
    const { rows } = await pool.query(
      "select exists (select from pgboss.job where name = 'noop' and state < 'completed') as left")
    return rows[0].left
  }

  async close () { await this.boss.stop({ graceful: false, wait: false, timeout: 500 }).catch(() => {}) }
}

const range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i)

async function fill (queue, count, size) {
  for (let i = 0; i < count; i += size) await queue.addMany(range(i, Math.min(i + size, count)))
}

// Until the last job is marked as done, not only handled. With a time limit: what was done by then.
async function drain (queue) {
  await fill(queue, options.jobs, 5000)
  await queue.vacuum()
  let done = 0
  let wake
  const all = new Promise(resolve => { wake = resolve })
  const start = performance.now()
  await queue.work(ids => { done += ids.length; if (done >= options.jobs) wake() })
  await (options.limit ? Promise.race([all, sleep(options.limit * 1000)]) : all)
  while (done >= options.jobs && await queue.left()) await sleep(3)
  return { rate: done / seconds(start) }
}

async function stock (queue) {
  await fill(queue, options.jobs, 5000)
  await queue.vacuum()
  return {}
}

// One of the processes that drain together from a moment on; there may be nothing left for the last.
async function share (queue) {
  await sleep(options.moment - Date.now())
  const start = Date.now()
  let done = 0
  await queue.work(ids => { done += ids.length })
  while (await queue.left()) await sleep(3)
  return { done, start, end: Date.now() }
}

async function enqueue (queue) {
  await queue.addOne(-1)
  let start = performance.now()
  for (let i = 0; i < options.single; i++) await queue.addOne(i)
  const single = options.single / seconds(start)
  start = performance.now()
  await fill(queue, options.batch, 1000)
  return { single, batch: options.batch / seconds(start) }
}

async function latency (queue) {
  const started = new Map()
  const taken = []
  let wake
  await queue.work(ids => {
    for (const id of ids) {
      if (started.has(id)) { taken.push(performance.now() - started.get(id)); wake() }
    }
  })
  await sleep(1500)
  for (let i = 0; i < options.jobs; i++) {
    const seen = new Promise(resolve => { wake = resolve })
    started.set(i, performance.now())
    await queue.addOne(i)
    await seen
    await sleep(5 + Math.random() * 15)
  }
  taken.sort((a, b) => a - b)
  return { p50: taken[Math.floor(taken.length / 2)], p99: taken[Math.floor(taken.length * 0.99)] }
}

async function add (queue) {
  await queue.addOne(0)
  return {}
}

async function hold (queue) {
  await queue.work(async () => {
    console.log('start')
    await sleep(options.seconds * 1000)
    console.log('end')
    if (options.fails) throw new Error('the second fails')
  })
  return new Promise(() => {})
}

// Each consumer's file has eight bytes a job that was done.
function doneIn (folder) {
  const files = fs.readdirSync(folder).filter(name => name.startsWith('done-'))
  return files.reduce((sum, name) => sum + fs.statSync(path.join(folder, name)).size, 0) / 8
}

async function produce (queue) {
  const begun = doneIn(options.folder)
  for (let sent = begun; ;) {
    if (sent - doneIn(options.folder) > options.backlog) {
      await sleep(5)
      continue
    }
    const first = options.first + sent - begun
    await queue.addMany(range(first, first + options.batch)).then(() => { sent += options.batch }, () => sleep(50))
  }
}

async function consume (queue) {
  const file = fs.openSync(options.path, 'a')
  await queue.work(async ids => { fs.writeSync(file, new Uint8Array(BigUint64Array.from(ids, BigInt).buffer)) })
  return new Promise(() => {})
}

const queue = library === 'pg-boss' ? new PgBoss() : new GraphileWorker()
await queue.open(!['hold', 'share', 'produce', 'consume'].includes(verb))
const figures = await { drain, stock, share, enqueue, latency, add, hold, produce, consume }[verb](queue)
await queue.close()
await pool.end()
console.log(JSON.stringify(figures))
process.exit(0)
