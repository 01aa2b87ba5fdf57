//! The message handlers of a Dispatcher.

use actix::{Context, Handler};

use super::Dispatcher;
use super::messages::Hint;

impl Handler<Hint> for Dispatcher {
    type Result = ();

    fn handle(&mut self, _: Hint, _: &mut Context<Dispatcher>) {
        let _turn = self.pulse.turn();
        self.thread_dispatcher.read_due_rings();
    }
}
