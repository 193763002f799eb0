//! The server over real sockets.

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Client, chat_body, eventually, fast, start};
use warmroute_sim::engine::EngineConfig;
use warmroute_sim::http::{HashTokenizer, KvEventSource, SimConfig, SimServer, StartError, Tokenize};

#[test]
fn a_chat_is_answered_whole() {
    let server = start(fast());
    let body = chat_body(&json!({"max_tokens": 5}));
    let mut client = Client::connect(&server);
    let cold = client.post("/v1/chat/completions", &body);
    assert_eq!((cold.status, cold.header("content-type")), (200, Some("application/json")));
    let cold = cold.json();
    assert_eq!(cold["object"], "chat.completion");
    assert_eq!(cold["choices"][0]["message"]["role"], "assistant");
    assert_eq!(cold["choices"][0]["finish_reason"], "length");
    assert_eq!(cold["usage"]["completion_tokens"], 5);
    assert_eq!(cold["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let warm = client.post("/v1/chat/completions", &body).json();
    let prompt = warm["usage"]["prompt_tokens"].as_u64().unwrap();
    assert_eq!(prompt, HashTokenizer.chat(body.as_bytes()).unwrap().len() as u64);
    assert_eq!(warm["usage"]["prompt_tokens_details"]["cached_tokens"], (prompt - 1) / 16 * 16);
    let full = prompt / 16 * 16;
    assert_eq!(cold["usage"]["prompt_tokens_details"]["created_cache_tokens"], full);
    assert_eq!(warm["usage"]["prompt_tokens_details"]["created_cache_tokens"], full - (prompt - 1) / 16 * 16);
    assert_eq!(warm["choices"][0]["message"], cold["choices"][0]["message"], "greedy");
}

#[test]
fn a_chat_streams_one_chunk_for_a_token() {
    let server = start(fast());
    let options = json!({"max_tokens": 4, "stream": true, "stream_options": {"include_usage": true}});
    let reply = Client::connect(&server).post("/v1/chat/completions", &chat_body(&options));
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let events = reply.events();
    assert_eq!(events.len(), 1 + 4 + 1, "the role, four tokens, the usage; then [DONE]");
    assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    let text: String =
        events[1..5].iter().map(|event| event["choices"][0]["delta"]["content"].as_str().unwrap()).collect();
    assert_eq!(HashTokenizer.text(&text).unwrap().len(), 4);
    let ends: Vec<_> = events[..5].iter().map(|event| event["choices"][0]["finish_reason"].clone()).collect();
    assert_eq!(ends, [Value::Null, Value::Null, Value::Null, Value::Null, json!("length")]);
    assert_eq!(events[1]["choices"][0]["token_ids"], Value::Null);
    assert_eq!(events[5]["choices"], json!([]));
    assert_eq!(events[5]["usage"]["completion_tokens"], 4);
    assert!(
        events
            .iter()
            .all(|event| event["object"] == "chat.completion.chunk" && event["id"] == events[0]["id"])
    );
}

#[test]
fn token_ids_come_where_they_are_asked_for() {
    let server = start(fast());
    let options = json!({"max_tokens": 3, "stream": true, "return_token_ids": true});
    let events = Client::connect(&server).post("/v1/chat/completions", &chat_body(&options)).events();
    let ids: Vec<_> = events[1..].iter().map(|event| event["choices"][0]["token_ids"].clone()).collect();
    assert!(ids.len() == 3 && ids.iter().all(|ids| ids.as_array().is_some_and(|ids| ids.len() == 1)));
    let whole = chat_body(&json!({"max_tokens": 3, "return_token_ids": true}));
    let whole = Client::connect(&server).post("/v1/chat/completions", &whole).json();
    let of_stream: Vec<_> = ids.iter().map(|ids| ids[0].clone()).collect();
    assert_eq!(whole["choices"][0]["token_ids"], json!(of_stream));
}

#[test]
fn the_headers_of_a_stream_come_before_its_prefill_ends() {
    let server = start(SimConfig { speed: 1.0, ..fast() });
    let long = "word ".repeat(20_000);
    let body = json!({"prompt": long, "max_tokens": 1, "stream": true}).to_string();
    let mut client = Client::connect(&server);
    client.send("POST", "/v1/completions", &[], &body);
    client.read_head();
    assert_eq!(server.snapshot().counters.ttft.count(), 0, "25,000 tokens take over two seconds");
    client.read_rest();
    assert_eq!(server.snapshot().counters.ttft.count(), 1);
}

#[test]
fn completions_take_every_form_of_prompt() {
    let server = start(fast());
    let mut client = Client::connect(&server);
    let mut complete = |prompt: Value, stream: bool| {
        client.post(
            "/v1/completions",
            &json!({"prompt": prompt, "max_tokens": 3, "stream": stream}).to_string(),
        )
    };
    for (prompt, choices, tokens) in [
        (json!("abcdefgh"), 1, 2),
        (json!([1, 2, 3]), 1, 3),
        (json!(["abcd", "efgh", "ij"]), 3, 3),
        (json!([[1, 2], [3]]), 2, 3),
    ] {
        let reply = complete(prompt.clone(), false).json();
        assert_eq!(reply["object"], "text_completion");
        let indices: Vec<_> =
            reply["choices"].as_array().unwrap().iter().map(|c| c["index"].as_u64().unwrap()).collect();
        assert_eq!(indices, (0..choices).collect::<Vec<_>>());
        assert_eq!(reply["usage"]["prompt_tokens"], tokens);
        assert_eq!(reply["usage"]["completion_tokens"], 3 * choices);
        let events = complete(prompt, true).events();
        assert_eq!(events.len() as u64, 3 * choices);
    }
}

#[test]
fn replies_end_by_nature_too() {
    let server = start(SimConfig { output_tokens: 6, ..fast() });
    let reply = Client::connect(&server).post("/v1/chat/completions", &chat_body(&json!({}))).json();
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    assert_eq!(reply["usage"]["completion_tokens"], 6);
}

#[test]
fn a_salt_and_an_adapter_separate_prompts() {
    let server = start(SimConfig { loras: vec!["adapter".to_owned()], ..fast() });
    let mut client = Client::connect(&server);
    let mut cached = |more: Value| {
        let reply = client.post("/v1/chat/completions", &chat_body(&more)).json();
        reply["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
    };
    assert_eq!(cached(json!({})), 0);
    assert_eq!(cached(json!({"cache_salt": "a"})), 0);
    assert_eq!(cached(json!({"model": "adapter"})), 0);
    assert!(cached(json!({})) > 0 && cached(json!({"cache_salt": "a"})) > 0);
    assert!(cached(json!({"model": "adapter"})) > 0);
}

#[test]
fn errors_have_vllms_shape() {
    let engine = EngineConfig { max_model_len: 64, ..EngineConfig::default() };
    let server = start(SimConfig { engine, max_body_bytes: 10_000, ..fast() });
    let mut client = Client::connect(&server);
    let long = json!({"prompt": vec![7; 100]}).to_string();
    let unknown = json!({"model": "other", "prompt": "x"}).to_string();
    let big = json!({"prompt": "x".repeat(20_000)}).to_string();
    for (body, status, kind) in [
        (long.as_str(), 400, "BadRequestError"),
        (&unknown, 404, "NotFoundError"),
        ("{\"prompt\": [1", 400, "Bad Request"),
        ("{}", 400, "Bad Request"),
        ("{\"prompt\": []}", 400, "BadRequestError"),
        ("{\"prompt\": [1], \"max_tokens\": 0}", 400, "BadRequestError"),
        ("{\"prompt\": [1], \"cache_salt\": \"\"}", 400, "BadRequestError"),
    ] {
        let reply = client.post("/v1/completions", body);
        assert_eq!(reply.status, status, "{body}");
        let error = &reply.json()["error"];
        assert_eq!((error["code"].as_u64(), error["type"].as_str()), (Some(u64::from(status)), Some(kind)));
    }
    let message = client.post("/v1/completions", &long).json()["error"]["message"].clone();
    assert_eq!(
        message,
        "This model's maximum context length is 64 tokens. However, your prompt contains 100 input tokens, which \
         exceeds this limit even without any output tokens. Please reduce the length of the input prompt. \
         (parameter=input_tokens, value=100)"
    );
    assert_eq!(client.get("/nowhere").status, 404);
    let wrong = client.get("/v1/completions");
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    assert_eq!(Client::connect(&server).post("/v1/completions", &big).status, 413);
    assert_eq!(server.snapshot().open_calls, 0);
}

#[test]
fn a_full_queue_refuses() {
    let engine = EngineConfig { max_num_seqs: 1, ..EngineConfig::default() };
    let config = SimConfig { engine, max_queued_requests: Some(1), speed: 1.0, ..fast() };
    let server = start(config);
    let body = json!({"prompt": [1], "max_tokens": 100_000, "ignore_eos": true, "stream": true}).to_string();
    let mut running = Client::connect(&server);
    running.send("POST", "/v1/completions", &[], &body);
    eventually(|| server.snapshot().load.running == 1);
    let mut waiting = Client::connect(&server);
    waiting.send("POST", "/v1/completions", &[], &body);
    eventually(|| server.snapshot().load.waiting == 1);
    let mut client = Client::connect(&server);
    assert_eq!(client.post("/v1/completions", &body).status, 503);
    assert_eq!(client.get("/load").json()["server_load"], 2);
    assert_eq!(client.metric("vllm:num_requests_waiting"), 1.0);
    assert_eq!(client.metric("vllm:admission_rejections_total"), 1.0);
}

#[test]
fn a_client_that_leaves_aborts_in_every_phase() {
    let engine = EngineConfig { max_num_seqs: 1, ..EngineConfig::default() };
    let server = start(SimConfig { engine, speed: 1.0, ..fast() });
    let endless = |stream: bool| {
        json!({"prompt": [1], "max_tokens": 100_000, "ignore_eos": true, "stream": stream}).to_string()
    };
    let prefill = json!({"prompt": vec![3; 100_000], "stream": false}).to_string();
    for (phase, body) in [("prefill", prefill), ("whole", endless(false)), ("stream", endless(true))] {
        let mut client = Client::connect(&server);
        client.send("POST", "/v1/completions", &[], &body);
        eventually(|| server.snapshot().load.running == 1);
        // A second one waits behind it, and leaves first.
        let mut queued = Client::connect(&server);
        queued.send("POST", "/v1/completions", &[], &endless(true));
        eventually(|| server.snapshot().load.waiting == 1);
        for client in [queued, client] {
            let before = server.snapshot().counters.aborted;
            drop(client);
            let left = Instant::now();
            eventually(|| server.snapshot().counters.aborted == before + 1);
            // Each of these would go on for minutes.
            assert!(left.elapsed() < Duration::from_secs(2), "{phase}: {:?}", left.elapsed());
        }
        assert_eq!(server.snapshot().load.used_blocks, 0, "{phase}");
        assert_eq!(server.snapshot().open_calls, 0, "{phase}");
    }
}

#[test]
fn clients_that_leave_at_any_moment_leave_nothing_behind() {
    let server = start(SimConfig { speed: 200.0, ..fast() });
    let visit = |visit: usize| {
        let body = json!({"prompt": vec![visit; 3000], "max_tokens": 40, "stream": visit.is_multiple_of(2)});
        let mut client = Client::connect(&server);
        client.send("POST", "/v1/completions", &[], &body.to_string());
        match visit % 6 {
            0 | 1 => {}
            2 => drop(client.read_head()),
            4 => drop(client.read_some(500)),
            _ => assert_eq!(client.read().status, 200),
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let visit = &visit;
            scope.spawn(move || (0..12).for_each(|number| visit(thread * 12 + number)));
        }
    });
    eventually(|| server.snapshot().open_calls == 0);
    let load = server.snapshot().load;
    assert_eq!((load.running, load.waiting, load.used_blocks), (0, 0, 0));
}

#[test]
fn the_other_paths_answer() {
    let config = SimConfig { loras: vec!["adapter".to_owned()], ..fast() };
    let server = start(config);
    let mut client = Client::connect(&server);
    let health = client.get("/health");
    assert_eq!((health.status, health.body.len()), (200, 0));
    assert_eq!(client.get("/version").json()["version"], "0.32.0");
    let models = client.get("/v1/models").json();
    let ids: Vec<_> = models["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
    assert_eq!(ids, ["sim", "adapter"]);
    assert_eq!(models["data"][0]["max_model_len"], 131_072);
    assert_eq!(client.get("/kv_event_sources").json(), json!({}));
    let tokens = client.post("/tokenize", &json!({"prompt": "abcdefgh"}).to_string()).json();
    assert_eq!((tokens["count"].as_u64(), tokens["tokens"].as_array().map(Vec::len)), (Some(2), Some(2)));
    let body = chat_body(&json!({}));
    let tokens = client.post("/tokenize", &body).json()["tokens"].clone();
    assert_eq!(tokens, json!(HashTokenizer.chat(body.as_bytes()).unwrap()));
    assert_eq!(client.post("/tokenize", "{}").status, 400);
}

#[test]
fn a_request_id_comes_back() {
    let server = start(fast());
    let mut client = Client::connect(&server);
    let body = chat_body(&json!({"max_tokens": 1}));
    client.send("POST", "/v1/chat/completions", &[("X-Request-Id", "my-\"id\"")], &body);
    let reply = client.read();
    assert_eq!(reply.header("x-request-id"), Some("my-\"id\""));
    assert_eq!(reply.json()["id"], "chatcmpl-my-\"id\"");
    let [first, second] = [(); 2].map(|()| client.post("/v1/chat/completions", &body).json()["id"].clone());
    assert_ne!(first, second);
    assert!(client.get("/health").header("x-request-id").is_some_and(|id| !id.is_empty()));
}

#[test]
fn a_reset_forgets_the_prefixes() {
    let server = start(fast());
    let mut client = Client::connect(&server);
    let body = chat_body(&json!({"max_tokens": 1}));
    client.post("/v1/chat/completions", &body);
    assert_eq!(client.post("/reset_prefix_cache", "").json(), json!({"success": true}));
    let reply = client.post("/v1/chat/completions", &body).json();
    assert_eq!(reply["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let mut other = Client::connect(&server);
    other.send(
        "POST",
        "/v1/completions",
        &[],
        &json!({"prompt": [1], "ignore_eos": true, "max_tokens": 9999}).to_string(),
    );
    eventually(|| server.snapshot().load.running == 1);
    assert_eq!(client.post("/reset_prefix_cache", "").json(), json!({"success": false}));
    let forced = client.post("/reset_prefix_cache?reset_running_requests=true", "").json();
    assert_eq!(forced, json!({"success": true}));
}

#[test]
fn metrics_have_vllms_names_and_count_tokens() {
    let server = start(fast());
    let mut client = Client::connect(&server);
    let body = json!({"prompt": (0..1043).collect::<Vec<_>>(), "max_tokens": 4}).to_string();
    client.post("/v1/completions", &body);
    client.post("/v1/completions", &body);
    for (name, value) in [
        ("vllm:prefix_cache_queries_total", 2086.0),
        ("vllm:prefix_cache_hits_total", 1040.0),
        ("vllm:prompt_tokens_total", 2086.0),
        ("vllm:prompt_tokens_cached_total", 1040.0),
        ("vllm:generation_tokens_total", 8.0),
        ("vllm:num_requests_running", 0.0),
        ("vllm:num_requests_waiting", 0.0),
        ("vllm:kv_cache_usage_perc", 0.0),
        ("vllm:num_preemptions_total", 0.0),
        ("vllm:time_to_first_token_seconds_count", 2.0),
        ("vllm:inter_token_latency_seconds_count", 6.0),
        ("vllm:e2e_request_latency_seconds_count", 2.0),
        ("vllm:request_prefill_time_seconds_count", 2.0),
        ("warmroute_sim:steps_total", 8.0),
    ] {
        assert_eq!(client.metric(name), value, "{name}");
    }
    let page = client.get("/metrics");
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let page = page.text();
    assert!(page.contains("vllm:num_requests_running{engine=\"0\",model_name=\"sim\"} 0.0\n"));
    assert!(page.contains(
        "vllm:request_success_total{engine=\"0\",model_name=\"sim\",finished_reason=\"length\"} 2.0\n"
    ));
    let info = page.lines().find(|line| line.starts_with("vllm:cache_config_info")).unwrap();
    assert!(info.contains("block_size=\"16\"") && info.contains("num_gpu_blocks=\"26251\""));
    // Two requests of a cold and a warm prefill and three decodes each, in simulated seconds.
    let ttft = client.metric("vllm:time_to_first_token_seconds_sum");
    assert!((0.07..0.08).contains(&ttft), "{ttft}");
}

#[test]
fn durations_do_not_depend_on_speed() {
    let seconds = |speed| {
        let server = start(SimConfig { speed, ..fast() });
        let body = json!({"prompt": vec![5; 8000], "max_tokens": 20}).to_string();
        let begin = Instant::now();
        Client::connect(&server).post("/v1/completions", &body);
        (begin.elapsed().as_secs_f64() * speed, server.snapshot().counters.e2e.sum())
    };
    let ((wall_slow, slow), (wall_fast, fast)) = (seconds(2.0), seconds(20.0));
    assert!((slow / fast - 1.0).abs() < 1e-9, "{slow} and {fast} simulated seconds");
    assert!(wall_slow >= slow && wall_fast >= fast, "no reply is ahead of the engine");
}

#[test]
fn kv_events_are_numbered_and_replayed() {
    let source = KvEventSource {
        endpoint: "tcp://*:5557".to_owned(),
        replay_endpoint: Some("tcp://*:5558".to_owned()),
        topic: "kv".to_owned(),
        buffer_steps: 10_000,
    };
    let server = start(SimConfig { kv_events: Some(source), ..fast() });
    let mut client = Client::connect(&server);
    let source = &client.get("/kv_event_sources").json()["0"];
    assert_eq!((&source["endpoint"], &source["buffer_steps"]), (&json!("tcp://*:5557"), &json!(10_000)));
    assert_eq!(source["publisher"], "zmq");
    let body = json!({"prompt": (0..5000).collect::<Vec<_>>(), "max_tokens": 12}).to_string();
    client.post("/v1/completions", &body);
    let batches = server.take_events(100, Duration::from_secs(5));
    let numbers: Vec<_> = batches.iter().map(|batch| batch.0).collect();
    // Three chunks of prefill, and the block that the outputs fill.
    assert_eq!(numbers, [0, 1, 2, 3]);
    assert!(server.take_events(100, Duration::ZERO).is_empty());
    assert_eq!(server.replay_from(2), batches[2..]);
    assert_eq!(batches[0].1[0], 0x93, "an array of three");
}

#[test]
fn a_stop_lets_requests_finish_or_cuts_them_off() {
    let server = start(SimConfig { speed: 1.0, ..fast() });
    let mut client = Client::connect(&server);
    client.send("POST", "/v1/completions", &[], &json!({"prompt": [1], "max_tokens": 20}).to_string());
    eventually(|| server.snapshot().load.running == 1);
    let addr = server.addr();
    server.stop(Duration::from_secs(60));
    server.stop(Duration::ZERO);
    assert_eq!(client.read().json()["usage"]["completion_tokens"], 20);
    assert!(std::net::TcpStream::connect(addr).is_err(), "nobody listens any more");

    let server = start(SimConfig { speed: 1.0, ..fast() });
    let mut client = Client::connect(&server);
    let endless = json!({"prompt": [1], "max_tokens": 100_000, "ignore_eos": true, "stream": true});
    client.send("POST", "/v1/completions", &[], &endless.to_string());
    eventually(|| server.snapshot().load.running == 1);
    server.stop(Duration::from_millis(50));
    let rest = client.read_until_closed();
    assert!(
        !rest.ends_with("0\r\n\r\n") && !rest.contains("[DONE]"),
        "an unfinished stream does not look finished"
    );
}

#[test]
fn what_cannot_be_started_is_refused_with_a_reason() {
    let refuse =
        |config: SimConfig| SimServer::start(config, std::sync::Arc::new(HashTokenizer)).unwrap_err();
    let speed = refuse(SimConfig { speed: 0.0, ..fast() });
    assert_eq!(speed.to_string(), "speed is 0, and must be 0.001 to 1000");
    let server = start(fast());
    let taken = refuse(SimConfig { port: server.addr().port(), ..fast() });
    assert!(matches!(taken, StartError::Bind { .. }), "{taken}");
}
