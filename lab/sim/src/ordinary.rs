//! What happens in each run in one way, whether or not there are faults.

use crate::cells::Cells;
use crate::client::Client;
use crate::history::History;
use crate::scene::{Event, Scene};

/// Has `event` happen, or returns it, if what it means is for the run to say.
pub(crate) fn happens(
    event: Event,
    cells: &mut Cells,
    (clients, history): (&mut [Client], &mut History),
    scene: &mut Scene,
) -> Option<Event> {
    match event {
        Event::Tier(life, thread) => cells.step_tier(life, thread, scene),
        Event::Beat(from, to, heartbeat) => cells.arrive_beat(from, to, heartbeat, scene),
        Event::Redial(from, life) => cells.redial(from, life, scene),
        Event::Deliver(pipe, side) => cells.deliver((pipe, side), clients, history, scene),
        Event::Dial(dial) => cells.dial(dial, scene),
        Event::Client(client) => {
            clients[client].step(cells.machines.len(), &mut cells.net, history, scene);
        }
        Event::ClientDials(client, cell) => {
            cells.accept_client(&mut clients[client], client, cell, scene);
        }
        Event::Answer(call, outcome) => cells.answer(call, outcome, scene),
        Event::MapComes(cell, version) => cells.take_map(cell, version, scene),
        Event::MapFetched(cell, version) => cells.take_any_map(cell, version, scene),
        Event::Start(life) => cells.say_started(life, scene),
        event => return Some(event),
    }
    None
}
