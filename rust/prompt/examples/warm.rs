//! scratch
use std::time::Instant;
use warmroute_core::block::*;
use warmroute_prompt::*;
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let mode = std::env::args().nth(2).unwrap();
    let n: usize = std::env::args().nth(3).unwrap().parse().unwrap();
    let p = Prompter::load(std::path::Path::new(&dir), &LoadOptions::default()).unwrap();
    let mk = |i: usize, k: usize| {
        format!("{i} ").to_string()
            + &"Some words of \"English\" prose,\nand {a: line}. 12 of it\n".repeat(k / 54)
            + &i.to_string()
    };
    let msgs:Vec<_>=(0..n).map(|i| serde_json::json!({"role": if i==0{"system"} else if i%2==1 {"user"} else {"assistant"}, "content": mk(i,120_000/n)})).collect();
    let bodies: Vec<String> = (0..if mode == "turn" { 2000 } else { 1 })
        .map(|j| {
            let mut m = msgs.clone();
            if mode == "turn" {
                m.push(serde_json::json!({"role":"user","content": mk(j+1000,2000)}));
            }
            serde_json::json!({"model":"m","messages":m}).to_string()
        })
        .collect();
    let h = BlockHasher::new(16, 0);
    let run = |b: &str| {
        let mut out = Vec::with_capacity(4096);
        let body = Body::parse(Endpoint::ChatCompletions, b.as_bytes()).unwrap();
        let t1 = Instant::now();
        let pr = p.read(&body).unwrap();
        assert_eq!(pr.rung(), Rung::Local);
        let t2 = Instant::now();
        pr.hash_into(&h, &Namespace::default(), &mut out);
        (t1, t2, Instant::now(), out)
    };
    for b in &bodies[..1] {
        run(b);
    }
    let mut v = [vec![], vec![], vec![], vec![]];
    for b in bodies.iter().cycle().take(if mode == "turn" { 2000 } else { 100000 }) {
        let t0 = Instant::now();
        let (t1, t2, t3, o) = run(b);
        drop(o);
        let t4 = Instant::now();
        v[0].push(t1 - t0);
        v[1].push(t2 - t1);
        v[2].push(t3 - t2);
        v[3].push(t4 - t0);
    }
    for (x, name) in v.iter_mut().zip(["parse", "read", "hash", "all"]) {
        x.sort();
        println!("{name} median {:?} p10 {:?}", x[x.len() / 2], x[x.len() / 10]);
    }
    println!("{:?}", p.cache_stats());
 for k in [20usize,200,2000] { let mut v=vec![]; for j in 0..3000 { let t=mk(j+7000,k); let t0=Instant::now(); let r=p.exact().unwrap().encode(&t,false).unwrap(); v.push(t0.elapsed()); std::hint::black_box(r);} v.sort(); println!("encode {k}: {:?}", v[1500]); }
 { let mut v=vec![]; for j in 0..3000 { let t=format!("{{\"role\":\"user\",\"content\":{}}}", serde_json::to_string(&mk(j+7000,2000)).unwrap()); let raw=format!("{{\"messages\":[{t}]}}"); let body=Body::parse(Endpoint::ChatCompletions, raw.as_bytes()).unwrap(); let t0=Instant::now(); let r=p.read(&body).unwrap(); v.push(t0.elapsed()); std::hint::black_box(r);} v.sort(); println!("single new message: {:?}", v[1500]); }
}
